package initiator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// callLimit is the limit of a call that asks no target, and loginLimit that of a login or a logout.
	callLimit  = 15 * time.Second
	loginLimit = 45 * time.Second
	// maxOutput bounds the output of a program.
	maxOutput = 256 << 10
	// maxShown bounds what an error shows of it.
	maxShown = 512
)

// The exit codes of iscsiadm.
const (
	exitNoSession = 2
	exitNoIface   = 6 // of -m iface -o show: its file can't be opened
	exitExists    = 15
	exitNoObjects = 21
)

// result is how a program ended.
type result struct {
	code int
	out  string
}

// call runs a program. An error means that its exit code isn't known.
func call(limit time.Duration, program string, args ...string) (result, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	out := &bounded{}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // It has ended well, and a daemon that it has started has its output.
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil && exit.Exited() {
		return result{exit.ExitCode(), string(out.data)}, nil
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result{0, string(out.data)}, err
}

// bounded is a buffer that drops what is too much.
type bounded struct{ data []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(maxOutput-len(b.data), len(p))]...)
	return len(p), nil
}

// iscsiadm runs iscsiadm. One of the accepted exit codes is no error; it is returned, and so is the output.
func (h *Host) iscsiadm(limit time.Duration, accepted []int, args ...string) (result, error) {
	r, err := call(limit, cmp.Or(h.Iscsiadm, "iscsiadm"), args...)
	if err == nil && r.code != 0 {
		err = &exitError{r}
		for _, code := range accepted {
			if r.code == code {
				err = nil
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("iscsiadm %s: %w", strings.Join(args, " "), err)
	}
	return r, err
}

// exitError is the error of a program that ended with a code.
type exitError struct{ result }

func (e *exitError) Error() string {
	return fmt.Sprintf("exit status %d: %s", e.code, shown(e.out))
}

func shown(out string) string {
	out = strings.ToValidUTF8(strings.Join(strings.Fields(out), " "), "?")
	if len(out) > maxShown {
		out = strings.ToValidUTF8(out[:maxShown], "") + "..."
	}
	return out
}

// setSecret gives a setting a secret value. No error has the value, nor what iscsiadm said.
func (h *Host) setSecret(node []string, name, value string) error {
	args := append(append([]string{}, node...), "-o", "update", "-n", name, "-v", value)
	r, err := call(callLimit, cmp.Or(h.Iscsiadm, "iscsiadm"), args...)
	switch {
	case err == nil && r.code != 0:
		return fmt.Errorf("iscsiadm: set %s: exit status %d", name, r.code)
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("iscsiadm: set %s: %w", name, exec.ErrNotFound)
	case err != nil:
		return fmt.Errorf("iscsiadm: set %s: it didn't end", name)
	}
	return nil
}
