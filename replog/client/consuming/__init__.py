"""The consumer: fetches ahead of the application, a bounded buffer, records out."""
