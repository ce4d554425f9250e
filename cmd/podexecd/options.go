package main

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/daemon"
)

// about is what its help begins with.
const about = "Podexecd runs the pods that podconfigd publishes: it drives a container runtime over CRI, and shows what runs."

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
	fs := opts.NewFlagSet("podexecd", about, stdout)
	fs.StringVar(&opts.podconfigEndpoint, "podconfig-endpoint", client.DefaultEndpoint,
		"podconfigd's `address`, unix:///path or tcp://host:port")
	fs.StringVar(&opts.podconfigTLS.CertFile, "podconfig-cert-file", "",
		"`file` of this node's certificate for a podconfigd on tcp://")
	fs.StringVar(&opts.podconfigTLS.KeyFile, "podconfig-key-file", "", "`file` of the key of --podconfig-cert-file")
	fs.StringVar(&opts.podconfigTLS.CAFile, "podconfig-ca-file", "",
		"`file` of the CAs that podconfigd's certificate may be from; default: the system's")
	fs.StringVar(&opts.runtimeEndpoint, "container-runtime-endpoint", "unix:///run/containerd/containerd.sock",
		"the container runtime's CRI `socket`, unix:///path")
	fs.StringVar(&opts.imageEndpoint, "image-service-endpoint", "",
		"the CRI `socket` for images; default: --container-runtime-endpoint")
	fs.StringVar(&opts.podLogsDir, "pod-logs-dir", "/var/log/pods",
		"`directory` of the pods' logs; links to them are made beside it, in containers")
	if err := opts.Parse(fs, args); err != nil {
		return nil, err
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
	var err error
	opts.node, err = opts.NodeName()
	return opts, err
}

// maxConsumerName is how many bytes of a consumer's name podconfigd takes; a node's name may have as many itself.
const maxConsumerName = 253

// stream is how podconfigd is reached. Over TLS a consumer goes by the name in its certificate.
func (o *options) stream(log *slog.Logger) client.Config {
	name := "podexecd@" + o.node
	cfg := client.Config{Endpoint: o.podconfigEndpoint, Consumer: name[:min(len(name), maxConsumerName)], Logger: log}
	if strings.HasPrefix(o.podconfigEndpoint, "tcp://") {
		cfg.Consumer, cfg.TLS = "", o.podconfigTLS
	}
	return cfg
}
