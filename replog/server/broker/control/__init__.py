"""The link to the controller: registration, metadata, changes of roles, ISR proposals."""
