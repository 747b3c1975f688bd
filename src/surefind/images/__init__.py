"""One door for every image: what there is, how it is decoded, sized and loaded."""
