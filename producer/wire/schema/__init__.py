"""Messages as declarations, and the compiler that makes encoders and decoders of them."""
