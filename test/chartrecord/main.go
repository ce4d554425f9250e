package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chartrecord:", err)
		os.Exit(1) //nolint:gocritic // The context ends with the process.
	}
}

// options are the flags.
type options struct {
	out, agents, kubelet, bin string
	scrapes                   int
	interval                  time.Duration
}

func run(ctx context.Context) (err error) {
	var o options
	flag.StringVar(&o.out, "out", "", "the `file` of the recording")
	flag.StringVar(&o.agents, "agents", podstream, "podstream, kubelet or podstream,kubelet")
	flag.StringVar(&o.kubelet, "kubelet", ".tools/kubelet", "the kubelet's `program`; kube-apiserver and etcd are in its directory")
	flag.StringVar(&o.bin, "bin", "bin", "the `directory` of the daemons; those that it lacks are built")
	flag.IntVar(&o.scrapes, "scrapes", 5, "the `number` of scrapes")
	flag.DurationVar(&o.interval, "interval", 15*time.Second, "the `time` between scrapes")
	flag.Parse()
	if o.out == "" {
		return errors.New("-out is missing")
	}
	dir, err := os.MkdirTemp("", "chartrecord")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	node, err := startNode(ctx, dir, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	kubeconfig, err := startCluster(ctx, node)
	if err != nil {
		return err
	}
	var all []Scrape
	for name := range strings.SplitSeq(o.agents, ",") {
		scrapes, err := record(ctx, node, name, kubeconfig, &o)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, scrapes...)
	}
	return write(o.out, all)
}

// startNode starts a containerd in a network of its own, and makes the programs of the agents known to it.
func startNode(ctx context.Context, dir string, o *options) (*devnode.Node, error) {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return nil, err
	}
	kubelet, err := filepath.Abs(o.kubelet)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"podconfigd", "podexecd", "kube-apiserver", "etcd"} {
		dir := o.bin
		if name == "kube-apiserver" || name == "etcd" {
			dir = filepath.Dir(kubelet)
		}
		program, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(program); err == nil {
			if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
				return nil, err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "kubelet"), fmt.Appendf(nil, isolated, kubelet), 0o755); err != nil { //nolint:gosec // A program.
		return nil, err
	}
	return devnode.Start(ctx, devnode.Config{
		Dir: filepath.Join(dir, "node"), Runtime: devnode.Containerd2, BinDir: bin, NetworkNamespace: true, Log: os.Stderr,
	})
}

// record starts an agent, runs the pods, scrapes, and ends both.
func record(ctx context.Context, node *devnode.Node, name, kubeconfig string, o *options) (all []Scrape, err error) {
	start, ok := agents[name]
	if !ok {
		return nil, errors.New("there is no such agent")
	}
	a, err := start(node, kubeconfig)
	defer func() { err = errors.Join(err, a.stop()) }()
	if err != nil {
		return nil, err
	}
	s := newScraper(node)
	defer func() {
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s ends with:\n%s\n", name, a.logs())
		}
	}()
	if err := a.add(first...); err != nil {
		return nil, err
	}
	if err := s.awaitRunning(ctx, "web", "volumes", "restarts"); err != nil {
		return nil, err
	}
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for i := range o.scrapes {
		some, err := s.scrape(ctx, name, a.targets)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		fmt.Fprintf(os.Stderr, "%s: scrape %d of %d\n", name, i+1, o.scrapes)
		if i == 0 {
			if err := errors.Join(a.add(later...), a.remove("ends")); err != nil {
				return nil, err
			}
		}
		if i+1 == o.scrapes {
			break
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := a.remove("web", "volumes", "restarts", "fails", "waits", "later"); err != nil {
		return nil, err
	}
	return all, s.awaitNone(ctx)
}
