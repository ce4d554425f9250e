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

// collectLogs removes directories first: the links that led there go with them.
func (c *Collector) collectLogs(ctx context.Context, p picture, settled bool) error {
	logs, err := os.OpenRoot(c.cfg.LogsDir)
	if errors.Is(err, fs.ErrNotExist) {
		// A disk that isn't mounted yet, perhaps: that is no word on the links.
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	var errs []error
	if settled {
		errs = append(errs, c.removeOrphans(ctx, logs, p))
	}
	return errors.Join(append(errs, c.removeLinks(ctx, logs, p))...)
}

// removeOrphans removes the logs of pods that are gone.
func (c *Collector) removeOrphans(ctx context.Context, logs *os.Root, p picture) error {
	entries, err := fs.ReadDir(logs.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if !e.IsDir() || !p.orphan(e.Name()) {
			continue
		}
		if err := logs.RemoveAll(e.Name()); err != nil {
			errs = append(errs, err)
			continue
		}
		c.log.Info("removed the logs of a pod that is gone", "directory", filepath.Join(c.cfg.LogsDir, e.Name()))
	}
	return errors.Join(errs...)
}

// removeLinks removes links to logs that aren't there.
func (c *Collector) removeLinks(ctx context.Context, logs *os.Root, p picture) error {
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

// leadsNowhere tells whether the link is to a log that isn't there and won't come. A link or a log that can't be looked at is there.
func (c *Collector) leadsNowhere(logs, links *os.Root, link string, p picture) bool {
	info, err := links.Lstat(link)
	if err != nil || c.cfg.Clock.Since(info.ModTime()) < minLinkAge {
		return false
	}
	target, err := links.Readlink(link)
	if err != nil {
		return false
	}
	log, ok := p.log(link, target)
	if !ok {
		return false
	}
	_, err = logs.Stat(log)
	return errors.Is(err, fs.ErrNotExist)
}
