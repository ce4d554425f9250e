package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// followEvery is the interval at which follow reads the volume.
const followEvery = 2 * time.Millisecond

// follow prints the content of a volume that is updated atomically, at first and after each change.
func (p *program) follow(ctx context.Context, args []string) int {
	shown := ""
	for {
		line, err := content(args[0])
		if err != nil {
			return p.failed(err)
		}
		if line != shown {
			fmt.Fprintln(p.stdout, line)
			shown = line
		}
		if code := p.stay(ctx, followEvery); p.signalled || ctx.Err() != nil {
			return code
		}
	}
}

// content returns the files in the directory that DIR/..data links to, as one line. If that directory is removed while
// it is read, content reads the new one.
func content(dir string) (string, error) {
	for {
		// The link is read once, because its target may be removed a moment later.
		link, err := os.Readlink(filepath.Join(dir, "..data"))
		if err != nil {
			return "", err
		}
		current := filepath.Join(dir, link)
		entries, err := os.ReadDir(current)
		files := make([]string, 0, len(entries))
		for i := 0; err == nil && i < len(entries); i++ {
			var text []byte
			text, err = os.ReadFile(filepath.Join(current, entries[i].Name()))
			files = append(files, fmt.Sprintf("%s=%q", entries[i].Name(), text))
		}
		switch {
		case err == nil:
			// The directory may have been removed while its names were read. Then the link has another target.
			if now, err := os.Readlink(filepath.Join(dir, "..data")); err != nil || now == link {
				return strings.Join(files, " "), err
			}
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
}
