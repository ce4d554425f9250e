package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// place is a directory with files of pods. signal is the eviction signal of its file system.
type place struct{ what, path, signal string }

// disk checks the file systems that podexecd and the runtime write to.
func (e *examination) disk(ctx context.Context) []Finding {
	places := []place{{"state", e.Podexec.RootDir, "nodefs"}, {"volumes", e.Podexec.KubeletDir, "nodefs"}, {"logs", e.Podexec.Settings.PodLogsDir, "nodefs"}}
	images, containers := e.runtimePlaces(ctx)
	if images != "" {
		places = append(places, place{"images", images, "imagefs"})
	}
	if containers != "" && containers != images {
		// The thresholds of containerfs are those of nodefs.
		places = append(places, place{"containers", containers, "nodefs"})
	}
	var found []Finding
	for _, p := range places {
		path, fs, err := fileSystem(filepath.Join(e.Machine, p.path))
		if err != nil {
			found = append(found, Finding{"disk", Failed, fmt.Sprintf("%s %s: %v", p.what, p.path, err), "see to it that the directory can be read"})
			continue
		}
		p.path = path
		found = append(found, p.finding(&fs, e.Podexec.Settings.EvictionHard))
	}
	return found
}

// finding is the finding on a place, given its file system and the thresholds of eviction.
func (p place) finding(fs *unix.Statfs_t, thresholds map[string]string) Finding {
	block := uint64(fs.Bsize) //nolint:gosec // It is a size.
	available, inodesFree := p.signal+".available", p.signal+".inodesFree"
	free, nodes := share(fs.Bavail, fs.Blocks), share(fs.Ffree, fs.Files)
	text := fmt.Sprintf("%s %s: %.0f %% free, %.0f %% of its inodes", p.what, p.path, free, nodes)
	switch {
	case fs.Flags&unix.ST_RDONLY != 0:
		return Finding{"disk", Failed, p.what + " " + p.path + " is read-only", "remount it, and look at the kernel's log for why it became so"}
	case free < 1 || nodes < 1:
		return Finding{"disk", Failed, text + ": pods and images can't be written", "make room"}
	case below(thresholds[available], fs.Bavail*block, fs.Blocks*block):
		return Finding{"disk", Warning, fmt.Sprintf("%s; pods are evicted below %s %s", text, available, thresholds[available]), "make room"}
	case below(thresholds[inodesFree], fs.Ffree, fs.Files):
		return Finding{"disk", Warning, fmt.Sprintf("%s; pods are evicted below %s %s", text, inodesFree, thresholds[inodesFree]), "remove small files"}
	case p.what == "volumes" && fs.Flags&unix.ST_NOEXEC != 0:
		return Finding{"disk", Warning, p.what + " " + p.path + " is mounted with noexec: containers can't run programs from emptyDir volumes", "mount it without noexec"}
	}
	return Finding{"disk", OK, text, ""}
}

// runtimePlaces returns the directories of the runtime's images and of its containers; each is empty if it isn't known.
func (e *examination) runtimePlaces(ctx context.Context) (images, containers string) {
	conn, err := grpc.NewClient(e.Podexec.Settings.ImageEndpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", "" // the check "runtime" reports it
	}
	defer conn.Close()
	info, err := runtimeapi.NewImageServiceClient(conn).ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", ""
	}
	first := func(all []*runtimeapi.FilesystemUsage) string {
		if len(all) == 0 {
			return ""
		}
		return all[0].GetFsId().GetMountpoint()
	}
	return first(info.GetImageFilesystems()), first(info.GetContainerFilesystems())
}

// below reports whether less is free than an eviction threshold, a percentage or a quantity. No threshold is never
// reached.
func below(threshold string, free, all uint64) bool {
	if percent, ok := strings.CutSuffix(threshold, "%"); ok {
		limit, err := strconv.ParseFloat(percent, 64)
		return err == nil && all > 0 && share(free, all) < limit
	}
	limit, err := resource.ParseQuantity(threshold)
	return err == nil && all > 0 && limit.CmpInt64(int64(free)) > 0 //nolint:gosec // A disk isn't that large.
}

// fileSystem returns the file system of the path, or of the nearest existing directory above it.
func fileSystem(path string) (string, unix.Statfs_t, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(path, &fs)
		if err != unix.ENOENT || path == "/" || path == "." {
			return path, fs, err
		}
		path = filepath.Dir(path)
	}
}

func share(free, all uint64) float64 {
	if all == 0 {
		return 100 // for instance, of inodes without a bound
	}
	return 100 * float64(free) / float64(all)
}
