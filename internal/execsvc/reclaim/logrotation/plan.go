package logrotation

import "github.com/podstream/podstream/internal/execsvc/cri/logdir"

// plan is what becomes of a log's rotated files.
type plan struct {
	// remove are the files to remove, and compress those to compress, in order.
	remove   []string
	compress []logdir.Rotated
	// newest is nil if there is no rotated log.
	newest *logdir.Rotated
}

// planFor returns the plan for the rotated logs of which keep are to stay at most. They are sorted, the oldest first.
// busy is the temporary file that is written just now; empty: none is.
//
// What an interrupted compression has left is removed: a temporary file, and a log whose compressed file is complete.
// Of the others, the oldest ones are removed. The newest one stays as it is, as the runtime may still write to it. The
// last name that there can be is removed: there would be none for the next rotation.
func planFor(rotated []logdir.Rotated, keep int, busy string) plan {
	var p plan
	for len(rotated) > 0 && rotated[len(rotated)-1].Last() {
		p.remove = append(p.remove, rotated[len(rotated)-1].Name)
		rotated = rotated[:len(rotated)-1]
	}
	p.newest = logdir.Newest(rotated)
	var kept []logdir.Rotated
	for i, r := range rotated {
		switch {
		case r.Kind == logdir.Temporary:
			if r.Name != busy {
				p.remove = append(p.remove, r.Name)
			}
		case r.Kind == logdir.Plain && i+1 < len(rotated) && rotated[i+1].Kind == logdir.Compressed && rotated[i+1].Same(r):
			p.remove = append(p.remove, r.Name)
		default:
			kept = append(kept, r)
		}
	}
	for ; len(kept) > max(keep, 0); kept = kept[1:] {
		p.remove = append(p.remove, kept[0].Name)
	}
	for i := len(kept) - 2; i >= 0; i-- {
		if kept[i].Kind == logdir.Plain {
			p.compress = append(p.compress, kept[i])
		}
	}
	return p
}
