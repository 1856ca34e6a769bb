"""The wire over grpcio: gRPC's own library, whose threads hand every event to the loop."""
