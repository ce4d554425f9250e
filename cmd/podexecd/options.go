package main

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/daemon"
)

// options are podexecd's flags, understood.
type options struct {
	daemon.Flags
	node              string
	podconfigEndpoint string
	podconfigTLS      client.TLS
	runtimeEndpoint   string
	imageEndpoint     string
	podLogsDir        string
}

func parse(args []string, stdout io.Writer) (*options, error) {
	opts := &options{}
	fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	fs.SetOutput(stdout)
	fs.SortFlags = false
	opts.AddFlags(fs, "podexecd")
	fs.StringVar(&opts.podconfigEndpoint, "podconfig-endpoint", client.DefaultEndpoint, "podconfigd's address, unix:///path or tcp://host:port")
	fs.StringVar(&opts.podconfigTLS.CertFile, "podconfig-cert-file", "", "this node's certificate for a podconfigd on tcp://")
	fs.StringVar(&opts.podconfigTLS.KeyFile, "podconfig-key-file", "", "key of --podconfig-cert-file")
	fs.StringVar(&opts.podconfigTLS.CAFile, "podconfig-ca-file", "", "CAs that podconfigd's certificate may be from; default: the system's")
	fs.StringVar(&opts.runtimeEndpoint, "container-runtime-endpoint", "unix:///run/containerd/containerd.sock", "the container runtime's CRI socket")
	fs.StringVar(&opts.imageEndpoint, "image-service-endpoint", "", "the CRI socket for images; default: --container-runtime-endpoint")
	fs.StringVar(&opts.podLogsDir, "pod-logs-dir", "/var/log/pods", "directory of the pods' logs; links to them are made beside it, in containers")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: podexecd takes only flags", fs.Arg(0))
	}
	if opts.imageEndpoint == "" {
		opts.imageEndpoint = opts.runtimeEndpoint
	}
	for flag, value := range map[string]string{
		"--container-runtime-endpoint": opts.runtimeEndpoint, "--image-service-endpoint": opts.imageEndpoint,
	} {
		if !strings.HasPrefix(value, "unix:///") {
			return nil, fmt.Errorf("%s %q: want unix:///path", flag, value)
		}
	}
	for flag, path := range map[string]*string{"--root-dir": &opts.RootDir, "--pod-logs-dir": &opts.podLogsDir} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		*path = abs
	}
	// What the flags say of access is checked here, so that a mistake is one of usage.
	if _, _, err := opts.Access(); err != nil {
		return nil, err
	}
	var err error
	opts.node, err = opts.NodeName()
	return opts, err
}

// stream is how podconfigd is reached. Over TLS a consumer goes by the name in its certificate.
func (o *options) stream(log *slog.Logger) client.Config {
	cfg := client.Config{Endpoint: o.podconfigEndpoint, Consumer: "podexecd@" + o.node, Logger: log}
	if strings.HasPrefix(o.podconfigEndpoint, "tcp://") {
		cfg.Consumer, cfg.TLS = "", o.podconfigTLS
	}
	return cfg
}
