-- The doorbell.  Serves: doorbell.
listen "pgrab"
