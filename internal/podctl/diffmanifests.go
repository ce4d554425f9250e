package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// stdinName is the MANIFEST that means standard input.
const stdinName = "-"

// maxManifests is podconfigd's bound for the manifests of one request, in bytes.
const maxManifests = 3 << 20

// manifestFiles replaces directories by the manifests in them.
func (o diffOptions) manifestFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		if arg == stdinName {
			files = append(files, arg)
			continue
		}
		info, err := os.Stat(arg)
		switch {
		case err != nil && o.remove: // a manifest that is already removed can be compared too
			files = append(files, arg)
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, arg)
		case o.at != "":
			return nil, fmt.Errorf("%s is a directory; --at is for one manifest", arg)
		default:
			found, err := manifestsIn(arg)
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
	}
	return files, nil
}

// manifestSuffixes are those of the files that a source of a directory reads.
var manifestSuffixes = []string{".yaml", ".yml", ".json"}

// manifestsIn lists the files that a source of this directory reads, sorted.
func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".")
		if !e.IsDir() && !hidden && slices.Contains(manifestSuffixes, filepath.Ext(e.Name())) {
			file := filepath.Join(dir, e.Name())
			if err := checkRegular(file); err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json files", dir)
	}
	return files, nil
}

// checkRegular returns an error if a file of a directory is a FIFO or a device: its read may have no end. The user may name one
// with -f, as a shell does for <(command).
func checkRegular(file string) error {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s isn't a regular file; give it with -f of its own if it is meant", file)
	}
	return err
}

// readManifests reads the files, one content each; with --remove nothing is read.
func (t *tool) readManifests(ctx context.Context, o diffOptions, files []string) ([][]byte, error) {
	contents := make([][]byte, len(files))
	if o.remove {
		return contents, nil
	}
	left := maxManifests
	for i, file := range files {
		read, name := readManifest, file
		switch {
		case file == stdinName:
			read = t.readStdin
		case isURL(file):
			read, name = t.readURL, urlName(file)
		}
		content, err := read(ctx, file, left)
		if err != nil {
			return nil, err
		}
		if left -= len(content); left < 0 {
			return nil, fmt.Errorf("the manifests with %s are larger than %d MiB, the bound of one request to podconfigd",
				name, maxManifests>>20)
		}
		contents[i] = content
	}
	return contents, nil
}

// readManifest reads a file, or one byte more than limit if it is larger.
func readManifest(_ context.Context, path string, limit int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readLimited(file, limit)
}

// readStdin stops with ctx: on a terminal only Ctrl-D ends a read.
func (t *tool) readStdin(ctx context.Context, _ string, limit int) ([]byte, error) {
	type result struct {
		content []byte
		err     error
	}
	done := make(chan result, 1)
	// ctx can't end this goroutine. The process ends then, and the goroutine with it.
	go func() {
		content, err := readLimited(t.Stdin, limit)
		done <- result{content, err}
	}()
	select {
	case r := <-done:
		return r.content, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func readLimited(r io.Reader, limit int) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	return content, nil
}

// sourcePath is the path of a source of files.
type sourcePath struct {
	path   string
	single bool // a file, not a directory
}

// sourcePath asks podconfigd for the path of the source.
func (t *tool) sourcePath(ctx context.Context, conn *connection, source string) (sourcePath, error) {
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return sourcePath{}, conn.explain(err)
	}
	var names []string
	for _, s := range resp.GetSources() {
		if kind, _, _ := strings.Cut(s.GetName(), ":"); kind != "file" {
			continue
		}
		if s.GetName() == source {
			// If podctl can't read the path, it is most likely a directory.
			info, err := os.Stat(s.GetLocation())
			return sourcePath{path: s.GetLocation(), single: err == nil && !info.IsDir()}, nil
		}
		names = append(names, s.GetName())
	}
	if len(names) == 0 {
		return sourcePath{}, errors.New("podconfigd has no source of files: give it --pod-manifest-path")
	}
	return sourcePath{}, fmt.Errorf("podconfigd has no source %s that reads files; it has %s", source, strings.Join(names, ", "))
}

// originsOf returns the origin of each file, and prints a note for each file that isn't in the source.
func (t *tool) originsOf(source sourcePath, files []string) ([]string, error) {
	origins := make([]string, len(files))
	fileAt := map[string]string{}
	for i, file := range files {
		origin, there, err := source.origin(file)
		if err != nil {
			return nil, err
		}
		if other, taken := fileAt[origin]; taken {
			return nil, fmt.Errorf("%s and %s would both be %s: compare them one by one", other, file, origin)
		}
		if !there {
			t.note("%s is compared as if it were copied to %s", file, origin)
		}
		origins[i], fileAt[origin] = origin, file
	}
	return origins, nil
}

// origin returns the path at which the source finds the file. If the file isn't in the source, it is the path of a
// copy.
func (s sourcePath) origin(file string) (origin string, there bool, err error) {
	file, err = filepath.Abs(file)
	if err != nil {
		return "", false, err
	}
	if s.single {
		return s.path, sameFile(file, s.path), nil
	}
	return filepath.Join(s.path, filepath.Base(file)), sameFile(filepath.Dir(file), s.path), nil
}

// sameFile compares paths by the files that they lead to, or as text if there are no files.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
