package podexecapi

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
)

const (
	// killPatience is how long a tar is looked for whose caller has gone: the runtime may be about to start it.
	// killPause is the time between two looks.
	killPatience = 2 * time.Second
	killPause    = 100 * time.Millisecond
	// maxProbe is more than a tar prints that finds nothing.
	maxProbe = 1 << 20
)

// runTar runs a command of tar in a container with the streams of run, and returns an error unless it succeeded. command
// returns it for a directory.
func (s *Server) runTar(ctx context.Context, to target, command func(dir string) []string, dir string, run runner) error {
	mark := tarMark()
	code, said, err := 0, &tail{}, error(nil)
	if ended := s.tar(ctx, to, command(dir+mark), said, func(ctx context.Context, in runtime.ExecInput, do doer) error {
		return run(ctx, in, func(ctx context.Context, in runtime.ExecInput) error {
			code, err = do(ctx, in)
			return nil
		})
	}); ended != nil {
		return ended
	}
	if err != nil || code != 0 {
		return tarError(err, code, to, strings.ReplaceAll(said.String(), mark, ""))
	}
	return nil
}

// isDir reports whether a path in the container is a directory. It needs only tar, as a container may have no other
// program: a tar that can't change to the directory prints nothing, and one that doesn't find a file there prints an
// empty archive.
func (s *Server) isDir(ctx context.Context, to target, path string) (bool, error) {
	none := ".podstream-" + strings.ToLower(rand.Text())
	command := createTar(path+tarMark(), none)
	printed, code, err := 0, 0, error(nil)
	probe, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = s.tar(probe, to, command, io.Discard,
		func(ctx context.Context, in runtime.ExecInput, do doer) error {
			in.Stdout = writerFunc(func(p []byte) error {
				if printed += len(p); printed > maxProbe {
					cancel() // A hostile tar prints without end.
				}
				return nil
			})
			code, err = do(ctx, in)
			return nil
		})
	switch {
	case ctx.Err() != nil:
		return false, s.ended(ctx)
	case probe.Err() != nil:
		return false, failedPrecondition("tar in container %s of pod %s prints more than a tar does", to.container, name(to.pod))
	case err != nil || noSuchProgram(code):
		return false, tarError(err, code, to, "")
	}
	return printed > 0, nil
}

// doer runs a command, and returns its exit code.
type doer func(ctx context.Context, in runtime.ExecInput) (code int, err error)

// tar runs a command of tar, which has a tarMark, in a container, and returns run's error. run calls do once. A tar that goes
// on after that is killed.
func (s *Server) tar(
	ctx context.Context, to target, command []string, said io.Writer,
	run func(ctx context.Context, in runtime.ExecInput, do doer) error,
) error {
	in := runtime.ExecInput{ContainerID: to.id, Stderr: said, Command: command}
	var failed error
	err := run(ctx, in, func(ctx context.Context, in runtime.ExecInput) (code int, err error) {
		code, failed = s.cfg.Exec.Exec(ctx, in)
		return code, failed
	})
	if failed != nil {
		s.kill(ctx, to, in.Command, errors.Is(failed, context.Canceled) || ctx.Err() != nil)
	}
	return err
}

// kill kills a command of a copy whose end isn't known. CRI has no call for that. With patience it waits for a command
// that may be about to start.
func (s *Server) kill(ctx context.Context, to target, command []string, patience bool) {
	if s.cfg.Kill == nil {
		return
	}
	for began := time.Now(); ; time.Sleep(killPause) {
		killed, err := s.cfg.Kill(to.id, command)
		if err != nil {
			s.log.WarnContext(ctx, "a tar whose caller has gone may go on in its container", "pod", name(to.pod), "uid", to.pod.UID,
				"container", to.container, "error", err)
		}
		if killed > 0 {
			s.log.InfoContext(ctx, "a tar whose caller has gone is killed", "pod", name(to.pod), "uid", to.pod.UID, "container", to.container)
		}
		if killed > 0 || err != nil || !patience || time.Since(began) > s.killPatience {
			return
		}
	}
}
