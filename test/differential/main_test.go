package differential

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "pgregory.net/rapid" // for its flags
)

// rapid's own flags set the number of sequences (-rapid.checks) and repeat them (-rapid.seed).
func TestMain(m *testing.M) {
	flag.Parse()
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		if err := seed.Value.Set(fmt.Sprint(time.Now().UnixNano())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(built)
		os.Exit(code)
	}))
}

// built is the directory of the built injectd, if there is one.
var built string

// injectd is the unchanged program, and injectdWithFaults has faults that can be enabled. Each is built once.
var (
	injectd           = sync.OnceValues(func() (string, error) { return build("injectd", "./test/injectd") })
	injectdWithFaults = sync.OnceValues(func() (string, error) { return build("injectd-with-faults", "./test/injectd", "-tags=failpoints") })
	// parsepods runs manifest.Parse.
	parsepods = sync.OnceValues(func() (string, error) { return build("parsepods", "./test/parsepods") })
)

// build builds a program of the product's module.
func build(name, pkg string, flags ...string) (string, error) {
	if built == "" {
		var err error
		if built, err = os.MkdirTemp("", "differential"); err != nil {
			return "", err
		}
	}
	program := filepath.Join(built, name)
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", program}, flags, []string{pkg})...)
	cmd.Dir = filepath.Join("..", "..")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	return program, nil
}

// sides are both sides before the first step.
type sides struct {
	upstream    upstreams
	podstream   *Podstream
	comparisons []Comparison
}

// start starts both sides. Podstream's streams end with the test.
func start(t *testing.T) (*sides, error) {
	program, err := injectd()
	if err != nil {
		return nil, err
	}
	return startWith(t, program)
}

func startWith(t *testing.T, program string, env ...string) (*sides, error) {
	p, err := StartPodstream(t.Context(), program, env...)
	if err != nil {
		return nil, err
	}
	return &sides{upstream: newUpstreams(), podstream: p, comparisons: make([]Comparison, len(Modes))}, nil
}

func newUpstreams() upstreams {
	var all upstreams
	for _, mode := range Modes {
		all = append(all, NewUpstream(mode))
	}
	return all
}

// upstreams has one Upstream for each of Modes.
type upstreams []*Upstream

func (all upstreams) set(s Step) ([][]Op, error) {
	var received [][]Op
	for _, u := range all {
		ops, err := u.Set(s)
		if err != nil {
			return nil, err
		}
		received = append(received, ops)
	}
	return received, nil
}

func (all upstreams) close() {
	for _, u := range all {
		u.Close()
	}
}

func (s *sides) close() error {
	s.upstream.close()
	return s.podstream.Close()
}

// set sends the step to both sides, and returns their ops in each of Modes.
func (s *sides) set(step Step) (upstream, podstream [][]Op, err error) {
	if upstream, err = s.upstream.set(step); err != nil {
		return nil, nil, err
	}
	podstream, err = s.podstream.Set(step)
	return upstream, podstream, err
}

// compare is set with a comparison. It returns the difference, or "".
func (s *sides) compare(step Step) (diff string, err error) {
	upstream, podstream, err := s.set(step)
	if err != nil {
		return "", err
	}
	for i, mode := range Modes {
		d, err := s.comparisons[i].Step(upstream[i], podstream[i])
		if err != nil {
			return "", fmt.Errorf("%s: %w", mode.Name, err)
		}
		if d != "" {
			diff += fmt.Sprintf("%s, upstream:  %s\n%s, podstream: %s\n(-upstream +podstream)\n%s\n",
				mode.Name, Text(upstream[i]), mode.Name, Text(podstream[i]), d)
		}
	}
	return diff, nil
}
