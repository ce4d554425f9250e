package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execconfig"
)

// State is how well something is.
type State string

// The states, from good to bad; Skipped is what couldn't be looked at, and why stands in Found.
const (
	OK      State = "ok"
	Skipped State = "skipped"
	Warning State = "warning"
	Failed  State = "failed"
)

// Finding is what one check found.
type Finding struct {
	// Check is what was looked at: "runtime", "certificates".
	Check string `json:"check"`
	State State  `json:"state"`
	// Found is what is there; Advice what to do about it, empty if nothing has to be done.
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// Config says what is to be examined.
type Config struct {
	// Podconfigd and Podexecd are connections to the daemons, and Explain puts the errors of their calls into words.
	Podconfigd, Podexecd Connection
	// Podexec is how podexecd works, or would.
	Podexec *Podexec
	// Machine is where /proc, /sys and the rest are: "/" if empty.
	Machine string
	// Patience is for each check: 10 s for zero.
	Patience time.Duration
	// Now tells the time. Nil means the system's clock.
	Now func() time.Time
}

// Connection is one to a daemon.
type Connection struct {
	grpc.ClientConnInterface
	// Explain puts the error of a call into words. Nil: they are told as they are.
	Explain func(error) error
}

func (c Connection) explain(err error) string {
	if c.Explain != nil {
		err = c.Explain(err)
	}
	return err.Error()
}

// Podexec is how podexecd works.
type Podexec struct {
	// Running is whether that is read from a running podexecd.
	Running bool
	Node    string
	RootDir string
	// Listen are its gRPC addresses.
	Listen   []string
	Settings *execconfig.Settings
}

// examination is one run of all checks.
type examination struct {
	Config
}

// Examine runs all checks at once and returns what they found, in an order in which one cause comes before what follows from it.
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
		{"sockets", e.sockets}, {"podconfigd", e.podconfigd}, {"sources", e.sources}, {"podexecd", e.podexecd}, {"stream", e.stream},
		{"runtime", e.runtime}, {"cgroups", e.cgroups}, {"disk", e.disk}, {"forwarding", e.forwarding}, {"clock", e.clock},
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
				// What it hangs in, a file system perhaps, may not notice; nobody waits for it.
				select {
				case found[i] = <-done:
				case <-time.After(time.Second):
					found[i] = []Finding{{check.name, Failed, fmt.Sprintf("the check didn't end within %v", e.Patience),
						"look for what hangs: a mount of a server that is away, or the process that should answer"}}
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

// Worst is the worst state among findings; OK if there are none.
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
