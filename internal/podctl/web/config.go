package web

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Config configures Run.
type Config struct {
	// Port is the TCP port on 127.0.0.1. Zero means any.
	Port int
	// Open opens the page in a browser, by the command of OpenCommand.
	Open bool
	// OpenCommand opens a file. Nil means xdg-open.
	OpenCommand []string
	// AllowExec and AllowApply allow what changes something.
	AllowExec, AllowApply bool
	// IdleTimeout is how long the page may be unused. Zero means for ever.
	IdleTimeout time.Duration
	// Recording is shown instead of the daemons. Empty: none.
	Recording string

	// Podconfigd and Podexecd are the daemons. Nil with a Recording. Podexecd may be nil: it isn't asked, for NoPodexecd.
	Podconfigd, Podexecd *upstream.Daemon
	NoPodexecd           string
	// Consumer is the name at podconfigd, and Version podctl's version.
	Consumer, Version string
	Actions           service.Actions
	Stats             upstream.StatsSource
	// Changes, Unified and ReadManifest are podctl's own: see service.Config and board.Config.
	Changes      func(context.Context, *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error)
	Unified      func(before, after *corev1.Pod, context int) (string, error)
	ReadManifest func(ctx context.Context, location, path string) ([]byte, error)

	// Note prints a line for the user at the terminal.
	Note func(format string, args ...any)
	// Stdin is the terminal at which the user asks for another link by Enter. Nil: there is none.
	Stdin io.Reader
	// HandoverDir is where the file with the link is made, and HandoverOwner the user that may read it; negative means the
	// process's own.
	HandoverDir   string
	HandoverOwner int
	Clock         clock.WithTicker
	// FirstPause, Heartbeat and Poll are those of upstream.Config.
	FirstPause, Heartbeat, Poll time.Duration
}
