"""Generated from proto/replog/v1 by replog.rpc.generate; do not edit."""
