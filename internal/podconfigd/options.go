package podconfigd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// about is what its help begins with.
const about = "Podconfigd reads the pod manifests of this node, merges them, and publishes every change as one ordered gRPC stream."

// Options are podconfigd's flags, understood.
type Options struct {
	daemon.Flags
	node               string
	files, extra       []merge.Source
	strict             bool
	fileCheckFrequency time.Duration
	fileQuietPeriod    time.Duration
	maxConsumers       int
	tracing            daemon.Tracing
}

// parseManifest reads a manifest that isn't there as the file sources would.
func (o *Options) parseManifest(origin string, data []byte) *manifest.Origin {
	return manifest.Parse(data, manifest.Options{Origin: origin, Node: o.node, Strict: o.strict})
}

func parse(args []string, stdout io.Writer, extras []Extra) (*Options, error) {
	opts := &Options{}
	var paths []string
	fs := opts.NewFlagSet("podconfigd", about, stdout)
	fs.StringArrayVar(&paths, "pod-manifest-path", []string{"/etc/podstream/manifests"},
		"`[name=]path` of a directory of pod manifests, or of one manifest; repeatable: the source is \"file\", with a name \"file:name\"; "+
			"an empty value means that no manifests are read")
	fs.DurationVar(&opts.fileCheckFrequency, "file-check-frequency", 20*time.Second, "`time` between full readings of the manifest paths")
	fs.DurationVar(&opts.fileQuietPeriod, "file-quiet-period", 100*time.Millisecond,
		"`time` for which a file that is written in place must be quiet before it is read")
	fs.BoolVar(&opts.strict, "strict-manifests", false, "refuse manifests with unknown or doubled fields instead of warning")
	fs.IntVar(&opts.maxConsumers, "max-consumers", 10_000, "`number` of streams that are served at once")
	opts.tracing.AddFlags(fs)
	for _, e := range extras {
		e.AddFlags(fs)
	}
	if err := opts.Parse(fs, args); err != nil {
		return nil, err
	}
	if err := opts.tracing.Check(); err != nil {
		return nil, err
	}
	if opts.fileCheckFrequency <= 0 || opts.fileQuietPeriod <= 0 {
		return nil, fmt.Errorf("--file-check-frequency and --file-quiet-period must be more than zero")
	}
	if opts.maxConsumers <= 0 {
		return nil, fmt.Errorf("--max-consumers must be more than zero")
	}
	var err error
	if opts.node, err = opts.NodeName(); err != nil {
		return nil, err
	}
	if opts.files, err = fileSources(paths); err != nil {
		return nil, err
	}
	for _, e := range extras {
		more, err := e.Sources()
		if err != nil {
			return nil, err
		}
		opts.extra = append(opts.extra, more...)
	}
	return opts, checkSources(opts.sources())
}

// sources are all sources, in order of priority.
func (o *Options) sources() []merge.Source { return slices.Concat(o.files, o.extra) }

// checkSources refuses what the merge can't work with. To have no source at all would be readiness without a word from
// anybody, on which consumers remove whatever they run.
func checkSources(sources []merge.Source) error {
	if len(sources) == 0 {
		return errors.New("there is no source of pods: --pod-manifest-path is empty, and nothing else is given")
	}
	seen := map[string]bool{}
	for _, s := range sources {
		if seen[s.Name] {
			return fmt.Errorf("there are two sources of the name %s", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// fileSources understands the values of --pod-manifest-path.
func fileSources(paths []string) ([]merge.Source, error) {
	if len(paths) == 1 && paths[0] == "" {
		return nil, nil
	}
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
