package csivolume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// dataName is upstream's name of the file that describes a volume, and draftName that of the next one.
	dataName  = "vol_data.json"
	draftName = ".vol_data.json.podstream"
	dataMode  = 0o644
)

// stagedData returns the keys of a staged volume's file.
func stagedData(s *storage.Staging, args *stageArgs) map[string]string {
	return args.withContext(map[string]string{"volumeHandle": s.Handle, "driverName": s.Driver})
}

// publishedData returns the keys of a published volume's file. attachmentID is there also if the volume isn't attached.
func publishedData(p *storage.Publishing, args *publishArgs, node string) map[string]string {
	return args.withContext(map[string]string{
		"specVolID": p.Name, "volumeHandle": p.Handle, "driverName": p.Driver, "nodeName": node,
		"volumeLifecycleMode": string(args.Mode),
		"attachmentID":        fmt.Sprintf("csi-%x", sha256.Sum256([]byte(p.Handle+p.Driver+node))),
	})
}

// withContext adds the SELinux context with which the volume is mounted.
func (u *use) withContext(keys map[string]string) map[string]string {
	if u.SELinuxContext != "" {
		keys["seLinuxMountContext"] = u.SELinuxContext
	}
	return keys
}

// writeData makes the file say that, as a whole. A file that says it already isn't touched: a driver may read it. It needn't
// be on the disk when the node crashes, as the mount isn't there then.
func writeData(ctx context.Context, dir *os.File, keys map[string]string) error {
	data, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("describe the volume: %w", err)
	}
	data = append(data, '\n')
	path := filepath.Join(dir.Name(), dataName)
	if isData(ctx, dir, data) {
		return nil
	}
	if err := unlink(dir, draftName); err != nil {
		return err
	}
	at := int(dir.Fd())
	fd, err := unix.Openat(at, draftName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, dataMode)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(at, draftName, at, dataName)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), unlink(dir, draftName))
	}
	return nil
}

// isData reports whether the file has exactly these bytes. It reads no more than that, and follows no link.
func isData(ctx context.Context, dir *os.File, want []byte) bool {
	fd, err := lookup(dir, dataName, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	f, err := openfile.Reopen(fd, dataName, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := openfile.ReadAll(ctx, f, int64(len(want)))
	return err == nil && bytes.Equal(got, want)
}

// removeData removes the file, and one that was being written.
func removeData(dir *os.File) error {
	return errors.Join(unlink(dir, dataName), unlink(dir, draftName))
}

// unlink removes a file or a link, unless it is missing.
func unlink(dir *os.File, name string) error {
	if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", filepath.Join(dir.Name(), name), err)
	}
	return nil
}
