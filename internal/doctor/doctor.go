package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execconfig"
)

// State is the result of a check.
type State string

// The states, from good to bad. A Skipped check has its reason in Found.
const (
	OK      State = "ok"
	Skipped State = "skipped"
	Warning State = "warning"
	Failed  State = "failed"
)

// Finding is the result of one check.
type Finding struct {
	// Check is the subject: "runtime", "certificates".
	Check string `json:"check"`
	State State  `json:"state"`
	// Found is the observation. Advice is the remedy, empty if none is needed.
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// Config configures Examine.
type Config struct {
	// Podconfigd and Podexecd are connections to the daemons.
	Podconfigd, Podexecd Connection
	// Version is podctl's own version, for comparison with the daemons'.
	Version string
	// Podexec has podexecd's settings.
	Podexec *Podexec
	// Machine is the root of /proc, /sys and the rest. Empty means "/".
	Machine string
	// Patience is the time limit of each check. Zero means 10 s.
	Patience time.Duration
	// Now returns the time. Nil means the system's clock.
	Now func() time.Time
}

// Connection is a connection to a daemon.
type Connection struct {
	grpc.ClientConnInterface
	// Explain explains the error of a call to users. Nil means the plain error.
	Explain func(error) error
}

func (c Connection) explain(err error) string {
	if c.Explain != nil {
		err = c.Explain(err)
	}
	return err.Error()
}

// Podexec has podexecd's settings.
type Podexec struct {
	// Running reports whether they were read from a running podexecd.
	Running bool
	// PID is its process. Zero means that it isn't known.
	PID     int
	Node    string
	RootDir string
	// KubeletDir is --kubelet-dir, with the pods' volumes.
	KubeletDir string
	// Listen are its gRPC addresses.
	Listen   []string
	Settings *execconfig.Settings
}

// examination is one run of all checks.
type examination struct {
	Config
}

// Examine runs all checks at once and returns the findings, ordered so that a cause comes before its effects.
func Examine(ctx context.Context, cfg Config) []Finding {
	if cfg.Machine == "" {
		cfg.Machine = "/"
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	e := &examination{cfg}
	checks := []struct {
		name string
		run  func(context.Context) []Finding
	}{
		{"sockets", e.sockets}, {"podconfigd", e.podconfigd}, {"sources", e.sources}, {"podexecd", e.podexecd}, {"versions", e.versions},
		{"stream", e.stream},
		{"runtime", e.runtime}, {"processes", e.units}, {"directories", e.directories}, {"cgroups", e.cgroups}, {"swap", e.swap}, {"kernel", e.kernelSettings}, {"inotify", e.inotify},
		{"disk", e.disk}, {"forwarding", e.forwarding}, {"clock", e.clock},
		{"credentials", e.credentials}, {"certificates", e.certificates},
	}
	found := make([][]Finding, len(checks))
	var group sync.WaitGroup
	for i, check := range checks {
		group.Go(func() {
			done := make(chan []Finding, 1)
			ctx, cancel := context.WithTimeout(ctx, e.Patience)
			defer cancel()
			go func() { done <- check.run(ctx) }()
			select {
			case found[i] = <-done:
			case <-ctx.Done():
				// A hanging system call, of a file system perhaps, can't be interrupted; the check is abandoned.
				select {
				case found[i] = <-done:
				case <-time.After(time.Second):
					found[i] = []Finding{{check.name, Failed, fmt.Sprintf("the check didn't end within %v", e.Patience),
						"look for the cause: a mount whose server is down, or a process that hangs"}}
				}
			}
		})
	}
	group.Wait()
	var all []Finding
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

// Worst returns the worst state among findings; OK if there are none.
func Worst(findings []Finding) State {
	worst := OK
	rank := map[State]int{OK: 0, Skipped: 0, Warning: 1, Failed: 2}
	for _, f := range findings {
		if rank[f.State] > rank[worst] {
			worst = f.State
		}
	}
	return worst
}
