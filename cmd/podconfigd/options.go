package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// options are podconfigd's flags, understood.
type options struct {
	daemon.Flags
	node               string
	files              []merge.Source
	strict             bool
	fileCheckFrequency time.Duration
	fileQuietPeriod    time.Duration
}

func parse(args []string, stdout io.Writer) (*options, error) {
	opts := &options{}
	var paths []string
	fs := pflag.NewFlagSet("podconfigd", pflag.ContinueOnError)
	fs.SetOutput(stdout)
	fs.SortFlags = false
	opts.AddFlags(fs, "podconfigd")
	fs.StringArrayVar(&paths, "pod-manifest-path", []string{"/etc/podstream/manifests"},
		"[NAME=]PATH of a directory of pod manifests, or of one manifest; repeatable: the source is \"file\", with a name \"file:NAME\"")
	fs.DurationVar(&opts.fileCheckFrequency, "file-check-frequency", 20*time.Second, "time between full readings of the manifest paths")
	fs.DurationVar(&opts.fileQuietPeriod, "file-quiet-period", 100*time.Millisecond,
		"how long a file that is written in place must be quiet before it is read")
	fs.BoolVar(&opts.strict, "strict-manifests", false, "refuse manifests with unknown or doubled fields instead of warning")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: podconfigd takes only flags", fs.Arg(0))
	}
	if opts.fileCheckFrequency <= 0 || opts.fileQuietPeriod <= 0 {
		return nil, fmt.Errorf("--file-check-frequency and --file-quiet-period must be more than zero")
	}
	var err error
	if opts.node, err = opts.NodeName(); err != nil {
		return nil, err
	}
	opts.files, err = fileSources(paths)
	return opts, err
}

// fileSources understands the values of --pod-manifest-path.
func fileSources(paths []string) ([]merge.Source, error) {
	var out []merge.Source
	seen := map[string]string{}
	for _, value := range paths {
		src := merge.Source{Name: "file", Location: value}
		// A path may hold an equals sign too; a name can't hold a slash.
		if name, path, ok := strings.Cut(value, "="); ok && !strings.Contains(name, "/") {
			if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
				return nil, fmt.Errorf("--pod-manifest-path %s: name %q: %s", value, name, errs[0])
			}
			src = merge.Source{Name: "file:" + name, Location: path}
		}
		if src.Location == "" {
			return nil, fmt.Errorf("--pod-manifest-path %q: the path is empty", value)
		}
		path, err := filepath.Abs(src.Location)
		if err != nil {
			return nil, fmt.Errorf("--pod-manifest-path %s: %w", value, err)
		}
		src.Location = path
		if other, ok := seen[src.Name]; ok {
			return nil, fmt.Errorf("--pod-manifest-path %s: source %s is %s already; give further ones a name, NAME=PATH", value, src.Name, other)
		}
		seen[src.Name] = path
		out = append(out, src)
	}
	return out, nil
}
