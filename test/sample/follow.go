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

// followEvery is how often follow looks.
const followEvery = 2 * time.Millisecond

// follow prints what a volume holds whose content changes all at once, whenever it differs.
func (p *program) follow(ctx context.Context, args []string) int {
	told := ""
	for {
		line, err := content(args[0])
		if err != nil {
			return p.failed(err)
		}
		if line != told {
			fmt.Fprintln(p.stdout, line)
			told = line
		}
		if code := p.stay(ctx, followEvery); p.signalled || ctx.Err() != nil {
			return code
		}
	}
}

// content is that of the directory that DIR/..data leads to, as one line. It is read again if that directory goes
// meanwhile.
func content(dir string) (string, error) {
	for {
		// The link alone is read: what it leads to may be gone a moment later.
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
			// It may have been removed while its names were read: then another one is there.
			if now, err := os.Readlink(filepath.Join(dir, "..data")); err != nil || now == link {
				return strings.Join(files, " "), err
			}
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
}
