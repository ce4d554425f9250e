package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/podstream/podstream/test/devnode"
)

const (
	// nodeName is the suffix of the sample pod's name.
	nodeName = "devnode"
	// restartInterval is the minimum run time of a daemon. A daemon that ends earlier isn't started again.
	restartInterval = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends this process at once; the next run clears the rest
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("devnode", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", ".run", "directory for all state")
	bin := flags.String("bin", "bin", "directory of the built binaries")
	manifest := flags.String("manifest", "hack/sample-pod.yaml", "manifest to run")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	config := devnode.Config{Dir: *dir, BinDir: *bin, Log: stdout}
	switch choice := os.Getenv("RUNTIME"); choice {
	case "":
		config.Runtime = devnode.Default(ctx)
	case "sim":
		config.Runtime = devnode.Sim
	default:
		config.Runtime, config.Endpoint = devnode.Endpoint, choice
	}

	s := &session{config: config, manifest: *manifest, stdout: stdout}
	err := s.play(ctx)
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		fmt.Fprintf(stderr, "devnode: %v\n", err)
	}
	if closeErr := s.close(); closeErr != nil {
		fmt.Fprintf(stderr, "devnode: %v\n", closeErr)
		return 1
	}
	if err != nil && !interrupted {
		return 1
	}
	return 0
}

// session is one run, from the start of the node to its end.
type session struct {
	config   devnode.Config
	manifest string
	stdout   io.Writer

	node                 *devnode.Node
	podconfigd, podexecd *devnode.Process
	exec                 *execClient
}

func (s *session) say(format string, args ...any) { fmt.Fprintf(s.stdout, format+"\n", args...) }

// play starts the node and the daemons, shows how the sample pod starts, prints the next steps, and stays until ctx or
// a daemon ends.
func (s *session) play(ctx context.Context) error {
	node, err := devnode.Start(ctx, s.config)
	if err != nil {
		return err
	}
	s.node = node
	s.say("runtime    %s", node.Endpoint())
	if err := s.startDaemons(ctx); err != nil {
		return err
	}
	if s.exec, err = dialExec(s.execEndpoint()); err != nil {
		return err
	}
	if err := s.showSamplePod(ctx); err != nil {
		return err
	}
	s.sayWhatNext()
	return s.stay(ctx)
}

// stay returns when ctx ends. A daemon that the user kills is started again, as a service manager does. If it ends
// again within restartInterval, stay returns an error.
func (s *session) stay(ctx context.Context) error {
	var last time.Time
	for {
		var daemon *devnode.Process
		select {
		case <-ctx.Done():
			return nil
		case <-s.podconfigd.Done():
			daemon = s.podconfigd
		case <-s.podexecd.Done():
			daemon = s.podexecd
		}
		if time.Since(last) < restartInterval {
			return ended(daemon)
		}
		last = time.Now()
		if err := daemon.Start(); err != nil {
			return err
		}
		s.say("%s ended, and was started again as process %d", daemon.Name, daemon.Pid())
	}
}

// ended returns the error for a daemon that ended without a request.
func ended(p *devnode.Process) error {
	err := p.Wait(context.Background())
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s has ended: %w; its output ends with:\n%s", p.Name, err, p.LogTail())
}

func (s *session) configEndpoint() string { return "unix://" + s.node.Socket("podconfigd") }
func (s *session) execEndpoint() string   { return "unix://" + s.node.Socket("podexecd") }
func (s *session) manifests() string      { return s.node.Path("manifests") }
func (s *session) placed() string         { return filepath.Join(s.manifests(), filepath.Base(s.manifest)) }

func (s *session) startDaemons(ctx context.Context) error {
	if err := os.MkdirAll(s.manifests(), 0o755); err != nil {
		return err
	}
	var err error
	s.podconfigd, err = s.node.StartDaemon("podconfigd",
		"--root-dir", s.node.Path("podconfigd"),
		"--listen", s.configEndpoint(),
		"--hostname-override", nodeName,
		"--pod-manifest-path", s.manifests(),
		"--applied")
	if err != nil {
		return err
	}
	if err := devnode.WaitServing(ctx, s.podconfigd, s.configEndpoint()); err != nil {
		return err
	}
	s.say("podconfigd %s, process %d, log %s", s.configEndpoint(), s.podconfigd.Pid(), s.podconfigd.LogPath)
	s.podexecd, err = s.node.StartDaemon("podexecd",
		"--root-dir", s.node.Path("podexecd"),
		"--kubelet-dir", s.node.Path("kubelet"),
		"--listen", s.execEndpoint(),
		"--hostname-override", nodeName,
		"--podconfig-endpoint", s.configEndpoint(),
		"--container-runtime-endpoint", s.node.Endpoint(),
		"--pod-logs-dir", s.node.Path("log", "pods"))
	if err != nil {
		return err
	}
	s.say("podexecd   %s, process %d, log %s", s.execEndpoint(), s.podexecd.Pid(), s.podexecd.LogPath)
	return nil
}

// showSamplePod shows with podctl how the sample pod starts.
func (s *session) showSamplePod(ctx context.Context) error {
	content, err := os.ReadFile(s.manifest)
	if err != nil {
		return err
	}
	s.say("\n$ podctl watch")
	watch := exec.CommandContext(ctx, filepath.Join(s.config.BinDir, "podctl"), "watch")
	watch.Env = append(os.Environ(), runDirVariable+"="+s.runDir())
	watch.Stdout, watch.Stderr = s.stdout, s.stdout
	watch.Cancel = func() error { return watch.Process.Signal(syscall.SIGTERM) }
	watch.WaitDelay = 2 * time.Second
	if err := watch.Start(); err != nil {
		return err
	}
	// By rename, so that podconfigd reads it whole.
	placeErr := renameio.WriteFile(s.placed(), content, 0o644)
	began := time.Now()
	var waitErr error
	if placeErr == nil {
		waitErr = s.exec.waitRunning(ctx, s.podexecd)
	}
	took := time.Since(began)
	_ = watch.Process.Signal(syscall.SIGTERM) // if it has ended, its output shows the reason
	_ = watch.Wait()                          // by our signal
	if err := errors.Join(placeErr, waitErr); err != nil {
		return err
	}
	s.say("\nThe pod is Running, %.2f s after its manifest was written to %s.\n", took.Seconds(), s.manifests())
	return nil
}

func (s *session) sayWhatNext() {
	bin, err := filepath.Abs(s.config.BinDir)
	if err != nil {
		bin = s.config.BinDir
	}
	s.say("%s", hints{
		runDir: s.runDir(), bin: bin, manifest: s.placed(), podexecd: s.podexecd.Pid(), logs: s.node.Path("log", "pods"),
	})
}

// hints are the values in the text about the next steps.
type hints struct {
	runDir, bin, manifest, logs string
	podexecd                    int
}

func (h hints) String() string {
	return fmt.Sprintf(`Next steps, in another terminal, after this line:

  export %[1]s=%[2]s PATH=%[3]s:$PATH

  podctl pods                the pods           podctl sources             the manifests, and their errors
  podctl logs hello          its output         podctl exec hello -- /sample cat /etc/hosts
  podctl describe hello      all details        podctl watch               each change
  podctl doctor              the node's faults  podctl web --open          all of it on a page in a browser

  change the pod:    $EDITOR %[4]s
                     (podctl diff FILE shows what a manifest would change)
  remove it:         rm %[4]s
  a pod of yours:    podctl apply -f FILE, podctl edit NAME, podctl delete NAME
  break podexecd:    kill -9 %[5]d   (the pod keeps running, and podexecd is started again)
  its log files:     ls %[6]s

Ctrl-C here ends everything. (A second Ctrl-C doesn't wait. The next run then clears the rest.)`,
		runDirVariable, h.runDir, h.bin, h.manifest, h.podexecd, h.logs)
}

// runDirVariable is podctl's environment variable for the directory of the daemons' sockets.
const runDirVariable = "PODSTREAM_RUN_DIR"

// runDir returns that directory.
func (s *session) runDir() string { return filepath.Dir(s.node.Socket("podconfigd")) }
