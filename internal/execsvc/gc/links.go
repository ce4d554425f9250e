package gc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// minLinkAge is the age before which a link stays though it leads nowhere: its container may be about to start.
const minLinkAge = time.Minute

// removeLinks removes links to logs that aren't there and won't come.
func (c *Collector) removeLinks(ctx context.Context, p picture) error {
	logs, err := os.OpenRoot(c.cfg.LogsDir)
	if errors.Is(err, fs.ErrNotExist) {
		// A disk that isn't mounted yet, perhaps: that is no word on the links.
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	links, err := os.OpenRoot(c.linksDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = links.Close() }()
	entries, err := fs.ReadDir(links.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if e.Type() != fs.ModeSymlink || !c.leadsNowhere(logs, links, e.Name(), p) {
			continue
		}
		if err := links.Remove(e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		c.log.Debug("removed a link to a log that is gone", "link", filepath.Join(c.linksDir, e.Name()))
	}
	return errors.Join(errs...)
}

// leadsNowhere tells whether the link is to a log that isn't there and won't come. What can't be looked at is there.
//
// A log that is missing is gone if its pod is this agent's, as the picture tells who may still write, or if the pod's directory is gone as
// well, whoever's it was: nobody writes there any more. Where the directory is there and the pod is none of those that were found, the link
// may be that of another agent, which has moved the log away for a moment to rotate it.
func (c *Collector) leadsNowhere(logs, links *os.Root, link string, p picture) bool {
	info, err := links.Lstat(link)
	if err != nil || c.cfg.Clock.Since(info.ModTime()) < minLinkAge {
		return false
	}
	target, err := links.Readlink(link)
	if err != nil {
		return false
	}
	dir, log, ok := p.log(link, target)
	if !ok {
		return false
	}
	if _, err := logs.Stat(log); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if p.found[dir] {
		return true
	}
	_, err = logs.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}
