package containergc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// minLinkAge is the age before which a link without a log stays: its container may be about to start.
const minLinkAge = time.Minute

// removeLinks removes links to logs that are gone.
func (c *Collector) removeLinks(ctx context.Context, p logState) error {
	logs, err := os.OpenRoot(c.cfg.LogsDir)
	if errors.Is(err, fs.ErrNotExist) {
		// The disk may not be mounted yet, which says nothing about the links.
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
	defer c.dropAges(entries)
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if e.Type() != fs.ModeSymlink || !c.isDead(logs, links, e.Name(), p) {
			continue
		}
		if err := links.Remove(e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		c.log.Debug("removed a link to a missing log", "link", filepath.Join(c.linksDir, e.Name()))
	}
	return errors.Join(errs...)
}

// dropAges drops the ages of links that aren't among the entries.
func (c *Collector) dropAges(entries []fs.DirEntry) {
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	for _, link := range c.ages.Keys() {
		if !there[link] {
			c.ages.Drop(link)
		}
	}
}

// isDead reports whether the link's log is missing and no container will write it. If that can't be determined, the
// link stays.
//
// A missing log is gone if its pod is this agent's, since the state has the containers that may still write, or if
// the pod's directory is gone too, whichever agent's it was. If the directory exists and the runtime has no such pod
// of this agent, the pod may be another agent's, which has moved the log for a moment to rotate it.
func (c *Collector) isDead(logs, links *os.Root, link string, p logState) bool {
	info, err := links.Lstat(link)
	if now := c.cfg.Clock.Now(); err != nil || now.Sub(c.ages.Of(link, now, info.ModTime())) < minLinkAge {
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
	if p.podDirs[dir] {
		return true
	}
	_, err = logs.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}
