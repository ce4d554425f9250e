package simruntime

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// playDiary runs a command, and appends to a file its start, each SIGTERM, and its end if no signal killed it.
func playDiary(e environment, args []string) process {
	d := diary{files: e.files, path: args[0], run: rand.Uint32()}
	if err := d.note("start"); err != nil {
		return failed(err)
	}
	return d.recorded(playCommand(e, args[1:]))
}

type diary struct {
	files *files
	path  string
	run   uint32
}

func (d diary) note(what string) error {
	return d.files.append(d.path, fmt.Sprintf("%d %08x %s\n", time.Now().UnixNano(), d.run, what))
}

// recorded returns p with recording of its SIGTERM and its end.
func (d diary) recorded(p process) process {
	if p.oomKilled {
		return p // a killed process records no end
	}
	if !p.runsOn && p.lifetime == 0 {
		return d.recordEnd(p)
	}
	next, onTerm, code, ignores := p.next, p.onTerm, p.termCode, p.ignoresTerm
	if !p.runsOn {
		last := process{exitCode: p.exitCode}
		p.next = func() process {
			if next == nil {
				return d.recordEnd(last)
			}
			return d.recorded(next())
		}
	}
	if ignores && !p.runsOn {
		// It is already ending. A second SIGTERM isn't recorded.
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
			return d.recorded(onTerm())
		default:
			return d.recordEnd(process{exitCode: code})
		}
	}
	return p
}

// recordEnd records the end of p, which ends at once, and returns p.
func (d diary) recordEnd(p process) process {
	if err := d.note(fmt.Sprintf("end %d", p.exitCode)); err != nil {
		return failed(err)
	}
	return p
}
