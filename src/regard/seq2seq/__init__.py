"""Translation with attention: text, encoder, decoder, training, search, files."""
