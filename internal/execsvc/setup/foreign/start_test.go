package foreign

import (
	"errors"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnmountAmongHung: jobs that hang, such as those for the usage, don't keep the volume from being unmounted. Unmounts
// have a limit too.
func TestUnmountAmongHung(t *testing.T) {
	h, s := hung(t)
	for range MaxHelpers {
		if err := abandon(t, h, s, Job{Look: s.Dir}); err == nil {
			t.Fatal("it didn't hang")
		}
	}
	// It ends the requests that wait, which may still be there for a moment.
	_, err := h.Do(t.Context(), share, Job{Unmount: &Unmount{Target: s.Dir, Force: true}})
	if err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	h.awaitNone(t)
	if _, err := h.Do(t.Context(), share, Job{Unmount: &Unmount{Target: s.Dir}}); err != nil {
		t.Error(err)
	}
	for n := range unmountFactor*MaxHelpers + 1 {
		p, err := newProcess(share, &Job{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.discard()
		err = h.add(p, &Job{Unmount: &Unmount{}})
		if _, busy := errors.AsType[*BusyError](err); busy != (n == unmountFactor*MaxHelpers) || !busy && err != nil {
			t.Errorf("unmount %d: %v", n, err)
		}
		if err == nil {
			defer close(p.ended)
			defer h.ended(p)
		}
	}
}

// TestSlowStart: while the process of a helper is started, which may take long, those of other volumes are started, and its own volume
// counts it.
func TestSlowStart(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	h := New(Config{})
	h.fork = func(cmd *exec.Cmd) error {
		if cmd.Args[2] == "slow" {
			begun <- struct{}{}
			<-release
		}
		return cmd.Start()
	}
	dir, done := t.TempDir(), make(chan error, MaxHelpers)
	for range MaxHelpers {
		go func() {
			_, err := h.Do(t.Context(), "slow", Job{Look: dir})
			done <- err
		}()
		<-begun
	}
	if _, err := h.Do(t.Context(), "fast", Job{Look: dir}); err != nil {
		t.Error(err)
	}
	_, err := h.Do(t.Context(), "slow", Job{Look: dir})
	if _, busy := errors.AsType[*BusyError](err); !busy {
		t.Errorf("error %v, want a BusyError", err)
	}
	close(release)
	for range MaxHelpers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	h.awaitNone(t)
}

// TestStartFails: a helper that can't be started isn't counted, and one that is killed before it is started, as by Close, isn't started.
func TestStartFails(t *testing.T) {
	h := New(Config{})
	h.fork = func(*exec.Cmd) error { return unix.EAGAIN }
	for range MaxHelpers + 1 {
		if _, err := h.Do(t.Context(), "disk", Job{Look: "/"}); err == nil || !IsUnchanged(err) {
			t.Errorf("error %v", err)
		} else if _, busy := errors.AsType[*BusyError](err); busy {
			t.Error(err)
		}
	}
	p, err := newProcess("disk", &Job{Look: "/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	if err := p.start((*exec.Cmd).Start); !errors.Is(err, ErrClosed) || p.pid() != 0 {
		t.Errorf("error %v, process %d", err, p.pid())
	}
}
