package simruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// newStreams returns the streaming server for an address. From then on, calls return URLs with that address.
func (s *Server) newStreams(address string) (streaming.Server, error) {
	server, err := streaming.NewServer(streaming.Config{
		BaseURL:                         &url.URL{Scheme: "http", Host: address},
		StreamIdleTimeout:               streaming.DefaultConfig.StreamIdleTimeout,
		StreamCreationTimeout:           5 * time.Second, // A disconnected caller isn't detected earlier.
		SupportedRemoteCommandProtocols: streaming.DefaultConfig.SupportedRemoteCommandProtocols,
		SupportedPortForwardProtocols:   streaming.DefaultConfig.SupportedPortForwardProtocols,
	}, streamRuntime{s})
	if err != nil {
		return nil, fmt.Errorf("serve streams: %w", err)
	}
	s.setStreams(server)
	return server, nil
}

// serveStreams serves streams until ctx ends, and then closes open ones.
func (s *Server) serveStreams(ctx context.Context, server http.Handler, l *trackedListener) error {
	defer s.setStreams(nil)
	s.mu.Lock()
	s.serving = ctx
	s.mu.Unlock()
	web := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.lifetimes.Add(1)
			defer s.lifetimes.Done()
			server.ServeHTTP(w, r)
		}),
	}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })()
	defer l.closeAll() // The web server doesn't close hijacked connections.
	if err := web.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve streams on %s: %w", l.Addr(), err)
	}
	return nil
}

func (s *Server) setStreams(server streaming.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = server
}

// streaming returns the streaming server, or Unimplemented if there is none.
func (s *Server) streaming(what string) (streaming.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		return nil, unimplemented(what)
	}
	return s.streams, nil
}

// Exec is ExecSync with streams, if Config.Streams is set.
func (s *runtimeService) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	server, err := s.streaming("streaming exec; ExecSync works")
	if err != nil {
		return nil, err
	}
	if _, err := s.runningContainer(req.GetContainerId()); err != nil {
		return nil, err
	}
	return server.GetExec(req)
}

// Attach connects to the container's process, if Config.Streams is set. It doesn't show earlier output.
func (s *runtimeService) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	server, err := s.streaming("attach")
	if err != nil {
		return nil, err
	}
	if _, err := s.runningContainer(req.GetContainerId()); err != nil {
		return nil, err
	}
	return server.GetAttach(req)
}

// PortForward connects through Config.Dial, if Config.Streams is set.
func (s *runtimeService) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	server, err := s.streaming("port forwarding")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.sandboxes[req.GetPodSandboxId()]
	switch {
	case !ok:
		return nil, notFound("failed to find sandbox %q", req.GetPodSandboxId())
	case b.state != runtimeapi.PodSandboxState_SANDBOX_READY:
		return nil, fmt.Errorf("sandbox container %q is not running", b.id)
	}
	return server.GetPortForward(req)
}

// runningContainer returns a running container.
func (s *Server) runningContainer(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[id]
	switch {
	case !ok:
		return nil, notFound("an error occurred when try to find container %q", id)
	case c.state != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return nil, fmt.Errorf("container is in %s state", c.state)
	}
	return c, nil
}

// streamRuntime is the runtime that the streaming server calls.
type streamRuntime struct{ *Server }

// Exec implements streaming.Runtime.
func (s streamRuntime) Exec(
	ctx context.Context, id string, cmd []string, in io.Reader, out, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize,
) error {
	p, exited, err := s.startExec(&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd})
	if err != nil {
		return err
	}
	with := newSession(in, out, stderr, tty, resize)
	for {
		if p.runWith != nil { // runWith writes the output.
			return exitError(runSession(p.runWith, with, exited))
		}
		if _, err := with.out.Write(output(p.stdout)); err != nil {
			return err
		}
		if _, err := with.stderr.Write(output(p.stderr)); err != nil {
			return err
		}
		switch err := s.waitProcess(ctx, exited, p.lifetime, p.runsOn); {
		case errors.Is(err, ErrNotRunning): // all processes of a container end with it
			return exitError(exitKilled)
		case err != nil:
			return err
		case p.next == nil:
			return exitError(p.exitCode)
		}
		p.stdout, p.stderr = nil, nil
		p = s.nextExec(p)
	}
}

// Attach implements streaming.Runtime. With StdinOnce and without a terminal, the end of the client's input is that of the process's. Else
// it detaches the client, and the process reads the next client's input.
func (s streamRuntime) Attach(
	_ context.Context, id string, in io.Reader, out, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize,
) error {
	c, err := s.runningContainer(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	run := c.process.runWith
	s.mu.Unlock()
	if run == nil {
		<-c.exited
		return nil
	}
	with := newSession(in, out, stderr, tty, resize)
	client := &detaching{in, make(chan struct{})}
	if in != nil && (!c.config.GetStdinOnce() || c.config.GetTty()) {
		with.in = client
	}
	code := runSession(run, with, c.exited)
	if client.over() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit(c, code, "")
	return nil
}

// PortForward implements streaming.Runtime. Unlike containerd it ends each direction by itself. As with containerd, a
// client that goes away isn't noticed while the pod neither reads, sends nor ends; the end of Serve ends that.
func (s streamRuntime) PortForward(ctx context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error {
	if s.cfg.Dial == nil {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q: connection refused", port, sandbox)
	}
	s.mu.Lock()
	b, ok := s.sandboxes[sandbox]
	serving := s.serving
	s.mu.Unlock()
	if !ok {
		return notFound("failed to find sandbox %q", sandbox)
	}
	conn, err := s.cfg.Dial(ctx, b.config.GetMetadata().GetName(), port)
	if err != nil {
		// The streaming server never ends a stream that it resets before the reply to its request. A write waits for that.
		_, _ = stream.Write(nil)
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q: %w", port, sandbox, err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(serving, func() { _ = conn.Close() })()
	ended := make(chan struct{})
	go func() { // It ends with the stream, or with the stream's connection.
		defer close(ended)
		_, _ = io.Copy(conn, stream)
		half, ok := conn.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			_ = conn.Close()
		}
	}()
	_, _ = io.Copy(stream, conn) // The end of the connection isn't an error of the forwarding.
	_ = stream.Close()           // Of this direction only.
	<-ended
	return nil
}

func newSession(in io.Reader, out, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) session {
	s := session{in: in, out: io.Discard, stderr: io.Discard, tty: tty, resize: resize}
	if out != nil {
		s.out = out
	}
	if stderr != nil {
		s.stderr = stderr
	}
	return s
}

// runSession runs a process that reads, and returns its exit code. If its container ends first, the process counts as
// killed. The goroutine then reads until its stream ends.
func runSession(run func(session) int32, with session, exited <-chan struct{}) int32 {
	code := make(chan int32, 1)
	go func() { code <- run(with) }()
	select {
	case c := <-code:
		return c
	case <-exited:
		return exitKilled
	}
}

// exitError converts an exit code for the streaming server: nil if it is 0.
func exitError(code int32) error {
	if code == 0 {
		return nil
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: int(code)}
}
