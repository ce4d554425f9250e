package web

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// shots is where screenshots are written. Empty: nowhere.
var shots = flag.String("shots", "", "directory for the screenshots of the documentation")

var (
	nodes *rig.Nodes
	// machine is the node on which all tests start their daemons.
	machine *sim
	// chrome is the context of the one browser that all tests share.
	chrome context.Context
)

func TestMain(m *testing.M) {
	var stop context.CancelFunc
	os.Exit(rig.Main(m, func() error {
		if err := rig.Parallel(1); err != nil {
			return err
		}
		program, err := browser()
		if err != nil {
			return err
		}
		if nodes, err = rig.NewNodes(os.Stderr); err != nil {
			return err
		}
		if machine, err = startSim(); err != nil {
			return errors.Join(err, nodes.Close())
		}
		chrome, stop = startBrowser(program)
		return chromedp.Run(chrome)
	}, func() error {
		stop()
		return errors.Join(machine.close(), nodes.Close())
	}))
}

// browser returns the path of Chromium.
func browser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium: `make test-web` installs it on Debian")
}

// startBrowser returns a context whose tabs are in one new browser.
func startBrowser(program string) (context.Context, context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1440, 900),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", false),
		// A hidden tab's timers would be slowed down: here all tabs but the last are hidden.
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
	)
	all, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	first, end := chromedp.NewContext(all, chromedp.WithErrorf(quiet))
	return first, func() {
		_ = chromedp.Cancel(first)
		end()
		cancel()
	}
}

// quiet drops the messages of chromedp about events that its version doesn't know.
func quiet(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !strings.Contains(text, "unmarshal event") {
		fmt.Fprintln(os.Stderr, text)
	}
}

// sim is a node with a simulated runtime that serves exec, which the runtime of devnode.Sim doesn't.
type sim struct {
	node *devnode.Node
	stop context.CancelFunc
	done chan error
}

func startSim() (*sim, error) {
	dir, err := nodes.NewDir()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "cri.sock"))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &sim{stop: stop, done: make(chan error, 1)}
	server := simruntime.New(simruntime.Config{StateDir: dir, Streams: true, Usage: usage})
	go func() {
		err := server.Serve(ctx, listener)
		server.Close()
		s.done <- err
	}()
	s.node, err = devnode.Start(ctx, devnode.Config{
		Dir: filepath.Join(dir, "node"), Runtime: devnode.Endpoint, Endpoint: listener.Addr().String(), BinDir: nodes.BinDir,
		SkipImages: true, Log: os.Stderr,
	})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *sim) close() error {
	var err error
	if s.node != nil {
		err = s.node.Close()
	}
	s.stop()
	return errors.Join(err, <-s.done)
}

// long skips a test in the short form, which has four views.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it isn't one of the four views of -short")
	}
}
