package podctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/openfile"
	"github.com/podstream/podstream/internal/podctl/web"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/manifestplace"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// webOptions are the flags of web.
type webOptions struct {
	port        int
	open        bool
	allowExec   bool
	allowApply  bool
	idleTimeout time.Duration
	recording   string
}

func (t *tool) webCommand() *cobra.Command {
	var o webOptions
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show this node, or a gateway's nodes, on a page in a browser",
		Long: `Web serves a page on 127.0.0.1 until Ctrl-C, or until it isn't used for the time of --idle-timeout. It prints the path of a
file that leads a browser to the page; only you may read it, and it is valid once, for a minute. Enter makes another one.

The page shows the stream of pods with its history, pods with the reasons for which they wait, sources, consumers, events, logs
and the use of resources. Unless --allow-exec or --allow-apply is given, it changes nothing; with them, it asks before each change.
It has your rights at the daemons, and no others.

From another machine, forward the port: ssh -L 7070:127.0.0.1:7070 NODE podctl web --port 7070, with the same number on both
sides, and open the file's address there.`,
		Example: `  podctl web --open
  podctl web --allow-exec --allow-apply
  podctl web --recording stream.jsonl.gz`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArguments(cmd, args); err != nil {
				return err
			}
			return o.validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runWeb(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.IntVar(&o.port, "port", 0, "the TCP `port` on 127.0.0.1; 0: any that is free")
	flags.BoolVar(&o.open, "open", false, "open the page with xdg-open")
	flags.BoolVar(&o.allowExec, "allow-exec", false, "allow commands in containers; the page asks each time")
	flags.BoolVar(&o.allowApply, "allow-apply", false, "allow the page to restart, apply and delete pods; it asks each time")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", 30*time.Minute, "end if the page isn't used for so long; 0: never")
	flags.StringVar(&o.recording, "recording", "", "show this `file` of podctl record, and no daemon")
	return cmd
}

func (o webOptions) validate() error {
	const ports = 1 << 16
	switch {
	case o.port < 0 || o.port >= ports:
		return errors.New("--port: want a number from 0 to 65535")
	case o.idleTimeout < 0:
		return errors.New("--idle-timeout: want a time from 0")
	case o.recording != "" && (o.allowExec || o.allowApply):
		return errors.New("--recording: nothing can be changed in a recording; leave out --allow-exec and --allow-apply")
	}
	return nil
}

// runWeb serves the page until ctx ends, or the terminal is closed.
func (t *tool) runWeb(ctx context.Context, o webOptions) error {
	ctx, release := untilHangup(ctx)
	defer release()
	cfg := web.Config{
		Port: o.port, Open: o.open, AllowExec: o.allowExec, AllowApply: o.allowApply, IdleTimeout: o.idleTimeout,
		Consumer: t.consumerName("podctl-web"), Version: t.Version, Changes: t.webChanges, Unified: unifiedPods, ReadManifest: t.manifestReader(),
		Note: t.note, HandoverOwner: -1, Clock: clock.RealClock{},
	}
	cfg.HandoverDir, cfg.HandoverOwner = t.handover()
	if terminalOf(t.Stdin) != nil {
		cfg.Stdin = t.Stdin
	}
	if o.recording != "" {
		path, err := filepath.Abs(o.recording)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
		cfg.Recording = path
		return web.Run(ctx, cfg)
	}
	// A page waits for its daemons; it doesn't give up as a command does.
	retries := grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: 5 * time.Second,
	})
	config, err := t.podconfigd.connect(t.userAgent(), retries)
	if err != nil {
		return err
	}
	defer config.Close()
	exec, err := t.podexecd.connect(t.userAgent(), retries)
	if err != nil {
		return err
	}
	defer exec.Close()
	cfg.Podconfigd, cfg.Podexecd = config.upstream(), exec.upstream()
	cfg.Actions = service.Actions{Restart: restarter(podexecv1.NewPodExecServiceClient(exec)), Applier: webApplier{t, config}}
	return web.Run(ctx, cfg)
}

// upstream returns the daemon of the connection, as the page uses it.
func (c *connection) upstream() *upstream.Daemon {
	return &upstream.Daemon{Name: c.daemon.name, Endpoint: c.daemon.endpoint.String(), Conn: c, Explain: c.explain}
}

// restarter returns the page's action that restarts containers of a pod.
func restarter(api podexecv1.PodExecServiceClient) func(context.Context, *podconfigv1.PodRef, string) ([]string, error) {
	return func(ctx context.Context, pod *podconfigv1.PodRef, container string) ([]string, error) {
		resp, err := api.RestartPod(ctx, &podexecv1.RestartPodRequest{Ref: pod, Container: container})
		if err != nil {
			return nil, err
		}
		var lines []string
		for _, c := range resp.GetContainers() {
			lines = append(lines, fmt.Sprintf("container %s restarts; it has %d s to end", c.GetName(), resp.GetGracePeriodSeconds()))
		}
		return lines, nil
	}
}

// handover returns where the file with the page's link is made, and the user that may read it; -1 means this one. If a user has
// started podctl by sudo, that user's browser has to read the file.
func (t *tool) handover() (dir string, owner int) {
	if uid, err := strconv.Atoi(t.Getenv("SUDO_UID")); err == nil && uid > 0 && os.Geteuid() == 0 {
		return os.TempDir(), uid
	}
	// After "su" it may be another user's, who can replace what is in it.
	if dir := t.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() {
			return dir, -1
		}
	}
	return os.TempDir(), -1
}

// webChanges returns the changes of a diff as `podctl diff` shows them.
func (t *tool) webChanges(ctx context.Context, resp *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error) {
	changes, err := t.changesOf(ctx, resp)
	if err != nil {
		return nil, err
	}
	out := make([]*podwebv1.PodDiff, len(changes))
	for i, c := range changes {
		text, err := c.unified()
		if err != nil {
			return nil, err
		}
		out[i] = &podwebv1.PodDiff{
			Key:    board.Key("pod", c.ref.GetUid()),
			Name:   &podwebv1.PodName{Namespace: c.ref.GetNamespace(), Name: c.ref.GetName(), Uid: c.ref.GetUid()},
			Effect: string(c.effect()), Reason: c.reason(), Unified: text,
		}
	}
	return out, nil
}

// unifiedPods returns the difference of two pods, with so many lines of context.
func unifiedPods(before, after *corev1.Pod, lines int) (string, error) {
	old, err := comparableText(before)
	if err != nil {
		return "", err
	}
	next, err := comparableText(after)
	if err != nil {
		return "", err
	}
	text, err := udiff.ToUnified("before", "after", old, udiff.Lines(old, next), lines)
	if err != nil {
		return "", fmt.Errorf("compare pod %s/%s: %w", after.Namespace, after.Name, err)
	}
	return text, nil
}

// manifestReader returns a reader of manifests, or nil if podconfigd is on another machine.
func (t *tool) manifestReader() func(ctx context.Context, location, path string) ([]byte, error) {
	if t.podconfigd.endpoint.address != "" {
		return nil
	}
	return readSourceFile
}

// readSourceFile reads a manifest of a source's directory. podconfigd names it, so it is read only beneath that directory, without
// following links.
func readSourceFile(ctx context.Context, location, path string) ([]byte, error) {
	if path == location {
		return openfile.Read(ctx, path, manifestplace.MaxSize)
	}
	name, err := filepath.Rel(location, path)
	if err != nil {
		return nil, err
	}
	file, err := openfile.OpenBeneath(location, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return openfile.ReadAll(ctx, file, manifestplace.MaxSize)
}
