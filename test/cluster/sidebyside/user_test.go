package sidebyside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// user runs one program in a directory of files that the commands name. Both users have the same files, except that
// each applies pods of its own namespace.
type user struct {
	t         *testing.T
	dir       string
	namespace string
	// programs are the paths of the programs, with the arguments that lead each to the node.
	programs map[string][]string
	env      []string
}

// answer is what a command printed, and its exit code.
type answer struct {
	code           int
	stdout, stderr string
	// during is what the row's during returned while the command ran.
	during string
	// after is what the row's after returned.
	after string
	// user is the one that ran it.
	user *user
}

// manner says how a command is run.
type manner struct {
	// stdin is the standard input.
	stdin string
	// until is set for a command that goes on. It is killed once it has printed this.
	until string
	// during is run once until is printed, with the output so far. Nil: nothing is.
	during func(output string) (string, error)
}

func (u *user) path(name string) string { return filepath.Join(u.dir, name) }

func (u *user) write(name, content string) {
	u.t.Helper()
	rig.Must(u.t, os.MkdirAll(filepath.Dir(u.path(name)), 0o755))
	rig.Must(u.t, os.WriteFile(u.path(name), []byte(content), 0o700))
}

// run runs a command, the first word of which is the program's name.
func (u *user) run(how manner, words ...string) answer {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.t.Context()), control.Bound)
	defer cancel()
	program := u.programs[words[0]]
	if program == nil {
		u.t.Fatalf("there is no program %s", words[0])
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], words[1:]...)...)
	cmd.Dir, cmd.Env = u.dir, append(os.Environ(), u.env...)
	out, errs := &printed{}, &printed{}
	cmd.Stdout, cmd.Stderr = out, errs
	a := answer{user: u}
	var err error
	if how.until == "" {
		cmd.Stdin = strings.NewReader(how.stdin)
		err = cmd.Run()
	} else {
		a.during, err = runUntil(cmd, out, how)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		u.t.Errorf("%s: %v; errors:\n%s", strings.Join(words, " "), err, errs)
	}
	if ctx.Err() != nil {
		u.t.Errorf("%s didn't end", strings.Join(words, " "))
	}
	if cmd.ProcessState != nil {
		a.code = cmd.ProcessState.ExitCode()
	}
	a.stdout, a.stderr = out.String(), errs.String()
	return a
}

// must runs a command that succeeds.
func (u *user) must(words ...string) string {
	u.t.Helper()
	a := u.run(manner{}, words...)
	if a.code != 0 {
		u.t.Fatalf("%s: exit code %d\n%s%s", strings.Join(words, " "), a.code, a.stdout, a.stderr)
	}
	return a.stdout
}

// await runs a command until it prints a text.
func (u *user) await(text string, words ...string) {
	u.t.Helper()
	rig.Must(u.t, rig.Poll(control.Bound, func() error {
		if a := u.run(manner{}, words...); a.code != 0 || !strings.Contains(a.stdout, text) {
			return fmt.Errorf("%s prints no %q: exit code %d\n%s%s", strings.Join(words, " "), text, a.code, a.stdout, a.stderr)
		}
		return nil
	}))
}

// runUntil runs a command that goes on, and kills it once it has printed a text. Until then it types the standard
// input again and again: a runtime passes on input a moment before it passes on output.
func runUntil(cmd *exec.Cmd, out *printed, how manner) (during string, err error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = rig.Poll(control.Bound, func() error {
		if len(ended) > 0 || strings.Contains(out.String(), how.until) {
			return nil
		}
		_, err := io.WriteString(stdin, how.stdin)
		return errors.Join(errors.New("it hasn't printed "+how.until), err)
	})
	if err == nil && how.during != nil {
		during, err = how.during(out.String())
	}
	if killed := cmd.Process.Kill(); !errors.Is(killed, os.ErrProcessDone) {
		err = errors.Join(err, killed)
	}
	<-ended
	return during, err
}

// printed is output that can be read while it is written.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (p *printed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
