package nodediff

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// klogError matches a line with an error of the kubelet's, and its end is the error.
var klogError = regexp.MustCompile(`^[EF]\d{4} [^\]]+\] (.*)$`)

// ownError begins the error of Podstream's programs, which may have several lines.
const ownError = "podexecd: "

// reason returns the last error in an agent's output, for which it ended.
func reason(agent Agent, output string) string {
	if at := strings.Index(output, ownError); agent == Podstream && at >= 0 {
		return strings.ReplaceAll(strings.TrimSpace(output[at:]), "\n", "; ")
	}
	last := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		match := klogError.FindStringSubmatch(line)
		switch {
		case agent == Kubelet && match != nil:
			last = match[1]
		case agent == Podstream && line != "":
			last = line
		}
	}
	return last
}

// refusal waits until the agent has refused to start, and returns how.
func (r *Run) refusal(ctx context.Context) (Seen, error) {
	select {
	case <-r.agent().done:
	case <-time.After(readyTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	fields := Fields{"exit": "runs"}
	if r.agent().ended() {
		code := r.agent().cmd.ProcessState.ExitCode()
		why := reason(r.Agent, r.agent().tail(1<<20))
		fmt.Fprintf(r.Log, "%s: %s refuses to start: %s\n", r.Case.Name, r.Agent, why)
		fields = Fields{"exit": fmt.Sprint(code)}
		for _, name := range r.Case.Names {
			fields["names "+name] = fmt.Sprint(strings.Contains(why, name))
		}
	}
	var errs []error
	for _, p := range r.processes {
		if !p.ended() {
			errs = append(errs, p.kill())
		}
	}
	var other *exec.ExitError
	if r.agent().err != nil && !errors.As(r.agent().err, &other) {
		errs = append(errs, r.agent().err)
	}
	seen := Seen{"refusal": fields}
	r.plain(seen)
	return seen, errors.Join(errs...)
}
