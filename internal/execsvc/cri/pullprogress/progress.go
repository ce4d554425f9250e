package pullprogress

// Progress is how far a pull is.
type Progress struct {
	// DoneBytes are those of the layers that the node has, by their stated sizes, and what has arrived of others.
	// TotalBytes is the stated size of all layers.
	DoneBytes, TotalBytes int64
	// DoneLayers are complete.
	DoneLayers, TotalLayers int
	// Partial is set if not all manifests are there: the totals are those of a part of the layers.
	Partial bool
}

// progress returns the progress of the pulls of these manifests. arrived has the bytes of the layers that arrive now. A
// layer of several manifests counts once.
func progress(manifests []manifest, has func(digest string) bool, arrived map[string]int64) Progress {
	var p Progress
	seen := map[string]bool{}
	for _, m := range manifests {
		for _, l := range m {
			if seen[l.digest] {
				continue
			}
			seen[l.digest] = true
			p.TotalLayers++
			p.TotalBytes = plus(p.TotalBytes, l.size)
			switch {
			case has(l.digest):
				p.DoneLayers++
				p.DoneBytes = plus(p.DoneBytes, l.size)
			default:
				// A registry may send more than it stated. The runtime then rejects the layer.
				p.DoneBytes = plus(p.DoneBytes, min(max(arrived[l.digest], 0), l.size))
			}
		}
	}
	return p
}
