package podctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxManifestFiles is podconfigd's bound for the files of one write.
const maxManifestFiles = 10_000

// manifestOptions are the flags that name manifests.
type manifestOptions struct {
	files     []string
	recursive bool
}

func (o *manifestOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "the `file`, directory or URL with the manifests, or - for standard input; repeatable")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "also the directories in the directories of -f")
}

// paths replaces directories by the manifests in them. It follows no links to directories.
func (o manifestOptions) paths() ([]string, error) {
	var out []string
	for _, name := range o.files {
		if name == stdinName || isURL(name) {
			out = append(out, name)
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			out = append(out, name)
		case !o.recursive:
			found, err := manifestsIn(name)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		default:
			found, err := manifestsBelow(name)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		if len(out) > maxManifestFiles {
			return nil, fmt.Errorf("%s and those before it have more than %d files", name, maxManifestFiles)
		}
	}
	return out, nil
}

// manifestsBelow lists the manifests in a directory and in those below it.
func manifestsBelow(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && entry.Name()[0] == '.':
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && slices.Contains(manifestSuffixes, filepath.Ext(path)):
			if out = append(out, path); len(out) > maxManifestFiles {
				return fmt.Errorf("%s has more than %d manifests", dir, maxManifestFiles)
			}
			return checkRegular(path)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s and the directories in it have no .yaml, .yml or .json files", dir)
	}
	return out, err
}

// readFiles reads the manifests of a write.
func (t *tool) readFiles(ctx context.Context, o manifestOptions) ([]*podconfigv1.ManifestFile, error) {
	paths, err := o.paths()
	if err != nil {
		return nil, err
	}
	contents, err := t.readManifests(ctx, diffOptions{}, paths)
	if err != nil {
		return nil, err
	}
	var out []*podconfigv1.ManifestFile
	for i, path := range paths {
		switch {
		case path == stdinName:
			path = "standard input"
		case isURL(path):
			path = urlName(path)
		}
		out = append(out, &podconfigv1.ManifestFile{Name: path, Content: contents[i]})
	}
	return out, nil
}

// dryRun is the flag --dry-run. kubectl's values are accepted: "client" is answered by podconfigd, too.
type dryRun string

// podconfigd does both dry runs: only it has the other sources' pods.
const (
	noDryRun     dryRun = "none"
	dryRunServer dryRun = "server"
	dryRunClient dryRun = "client"
)

func (d *dryRun) addFlag(flags *pflag.FlagSet) {
	*d = noDryRun
	flags.Var(d, "dry-run", "`none`, or server: check everything and print what would change, without writing; client does the same")
	flags.Lookup("dry-run").NoOptDefVal = "server"
}

func (d dryRun) on() bool { return d == dryRunServer || d == dryRunClient }

// suffix is what kubectl prints after the result.
func (d dryRun) suffix() string {
	switch d {
	case dryRunServer:
		return " (server dry run)"
	case dryRunClient:
		return " (dry run)"
	}
	return ""
}

// String implements pflag.Value.
func (d *dryRun) String() string { return string(*d) }

// Type implements pflag.Value.
func (d *dryRun) Type() string { return "word" }

// Set implements pflag.Value.
func (d *dryRun) Set(s string) error {
	switch s {
	case "none", "false":
		*d = noDryRun
	case "server", "true":
		*d = dryRunServer
	case "client":
		*d = dryRunClient
	default:
		return errors.New("want none or server")
	}
	return nil
}
