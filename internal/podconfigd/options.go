package podconfigd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources/relay"
)

// about is the beginning of its help text.
const about = "Podconfigd reads the pod manifests of this node, merges them, and publishes every change as one ordered gRPC stream."

// Options are podconfigd's parsed flags, and the content of the configuration files at the start.
type Options struct {
	daemon.Flags
	node            string
	sources         sourceconfig.Flags
	config          kubeletconfig.Paths
	fileQuietPeriod time.Duration
	// maxConsumersPerIdentity is for one identity. Zero: a tenth of maxConsumers.
	maxConsumers, maxConsumersPerIdentity int
	// relayPods and relayBytes limit what one upstream has relayed.
	relayPods, relayBytes int
	// pollTime defaults to the constant; tests have a shorter one.
	pollTime    time.Duration
	tracing     daemon.Tracing
	passthrough passthroughFlags
	// extra are the sources of the extras, which are last in the order of priority.
	extra []merge.Source

	// plan is made from what was read.
	plan *sourceconfig.Plan
	read *reading
	// hup receives SIGHUP from before the files are read: until then the signal ends the process. The owner of the
	// Options stops it.
	hup chan os.Signal
}

func parse(args []string, stdout io.Writer, extras []Extra) (_ *Options, err error) {
	opts := &Options{hup: make(chan os.Signal, 1), pollTime: pollTime}
	signal.Notify(opts.hup, syscall.SIGHUP)
	defer func() {
		if err != nil {
			signal.Stop(opts.hup)
		}
	}()
	fs := opts.NewFlagSet("podconfigd", about, stdout)
	opts.sources.AddFlags(fs)
	fs.StringVar(&opts.config.Config, "config", "",
		"`file` with a KubeletConfiguration, or with PodSources documents, or both; read again when it changes, and on SIGHUP")
	fs.StringVar(&opts.config.Dir, "config-dir", "", "`directory` of drop-ins, *.conf, for --config; read again likewise")
	check := fs.Bool("check-config", false, "print the sources in their order, or the errors in flags and configuration, and exit")
	fs.DurationVar(&opts.fileQuietPeriod, "file-quiet-period", 100*time.Millisecond,
		"`time` for which a file that is written in place must be quiet before it is read")
	fs.IntVar(&opts.maxConsumers, "max-consumers", 10_000, "`number` of streams that are served at once")
	fs.IntVar(&opts.maxConsumersPerIdentity, "max-consumers-per-identity", 0,
		"`number` of streams that one uid or certificate name may have; root and podconfigd's own user may have all; "+
			"0 means a tenth of --max-consumers")
	fs.IntVar(&opts.relayPods, "relay-max-pods", relay.MaxPods,
		"`number` of pods, and of ConfigMaps and Secrets, that are taken of one upstream; with more, what it sent before stays")
	fs.IntVar(&opts.relayBytes, "relay-max-bytes", relay.MaxBytes, "`bytes` of these pods, and of these objects, that are taken of one upstream")
	fs.StringVar(&opts.NodeClientCAFile, "node-client-ca-file", "",
		"`file` of the CAs of nodes' certificates for tcp://; by an entry \"systemNodes: true\" of --access-file, the user system:node:NAME gets the pods of node NAME")
	opts.tracing.AddFlags(fs)
	opts.passthrough.addFlags(fs)
	for _, e := range extras {
		e.AddFlags(fs)
	}
	if err := opts.Parse(fs, args); err != nil {
		return nil, err
	}
	if err := opts.check(extras); err != nil {
		return nil, err
	}
	opts.read = opts.reread(nil)
	if opts.plan, err = opts.makePlan(opts.read); err != nil {
		return nil, err
	}
	if err := opts.checkStart(*check); err != nil {
		return nil, err
	}
	if !*check {
		return opts, nil
	}
	if err := printPlan(stdout, opts); err != nil {
		return nil, err
	}
	return nil, pflag.ErrHelp
}

// check checks what the flags alone determine.
func (o *Options) check(extras []Extra) (err error) {
	if err := errors.Join(o.tracing.Check(), o.sources.Check()); err != nil {
		return err
	}
	if _, err := o.passthrough.server(nil); err != nil {
		return err
	}
	if o.fileQuietPeriod <= 0 {
		return fmt.Errorf("--file-quiet-period must be more than zero")
	}
	if o.maxConsumers <= 0 {
		return fmt.Errorf("--max-consumers must be more than zero")
	}
	if o.maxConsumersPerIdentity < 0 {
		return fmt.Errorf("--max-consumers-per-identity must not be negative")
	}
	if o.relayPods <= 0 || o.relayBytes <= 0 {
		return fmt.Errorf("--relay-max-pods and --relay-max-bytes must be more than zero")
	}
	if o.node, err = o.NodeName(); err != nil {
		return err
	}
	// Messages name the files, and the working directory may change.
	for flag, path := range map[string]*string{"--config": &o.config.Config, "--config-dir": &o.config.Dir} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	for _, e := range extras {
		more, err := e.Sources()
		if err != nil {
			return err
		}
		o.extra = append(o.extra, more...)
	}
	return nil
}

// mergeSources returns all sources, those of the extras included, in order of priority.
func (o *Options) mergeSources(plan *sourceconfig.Plan) []merge.Source {
	var out []merge.Source
	for _, s := range plan.Sources {
		out = append(out, merge.Source{Name: s.Name, Location: s.Location})
	}
	return append(out, o.extra...)
}
