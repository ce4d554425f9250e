package simruntime

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// playDiary runs a command and writes a file of its start, each SIGTERM, and an end of its own.
func playDiary(w world, args []string) process {
	d := diary{files: w.files, path: args[0], run: rand.Uint32()}
	if err := d.note("start"); err != nil {
		return failed(err)
	}
	return d.keep(playCommand(w, args[1:]))
}

type diary struct {
	files *files
	path  string
	run   uint32
}

func (d diary) note(what string) error {
	return d.files.append(d.path, fmt.Sprintf("%d %08x %s\n", time.Now().UnixNano(), d.run, what))
}

// keep is p, written down.
func (d diary) keep(p process) process {
	if p.oomKilled {
		return p // in the middle of a word
	}
	if !p.runsOn && p.lifetime == 0 {
		return d.end(p)
	}
	next, onTerm, code, ignores := p.next, p.onTerm, p.termCode, p.ignoresTerm
	if !p.runsOn {
		last := process{exitCode: p.exitCode}
		p.next = func() process {
			if next == nil {
				return d.end(last)
			}
			return d.keep(next())
		}
	}
	if ignores && !p.runsOn {
		// It is ending already; a second SIGTERM isn't recorded.
		return p
	}
	p.ignoresTerm = false
	p.onTerm = func() process {
		if err := d.note("term"); err != nil {
			return failed(err)
		}
		switch {
		case ignores:
			return process{stdout: []string{"ignored a signal"}, runsOn: true, ignoresTerm: true}
		case onTerm != nil:
			return d.keep(onTerm())
		default:
			return d.end(process{exitCode: code})
		}
	}
	return p
}

// end is p, which ends at once, written down.
func (d diary) end(p process) process {
	if err := d.note(fmt.Sprintf("end %d", p.exitCode)); err != nil {
		return failed(err)
	}
	return p
}
