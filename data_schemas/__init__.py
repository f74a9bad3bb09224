"""What every part of the product agrees on: units, ids, fingerprints, records, configuration, errors."""
