"""Generated from proto/ by replog.rpc.generate; do not edit."""
