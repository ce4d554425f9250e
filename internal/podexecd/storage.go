package podexecd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiexpansion"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/volumeusage"
	"github.com/podstream/podstream/internal/execsvc/serve/stats"
	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/claimvolumes"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/local"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/nfs"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/resolver"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/staticclaim"
	"github.com/podstream/podstream/internal/kubeletconfig/gates"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// recordsDir is the directory of the records of persistent volumes in --root-dir.
const recordsDir = "volumes"

// mountingDir is the directory of the notes of mounts that haven't ended, in --root-dir.
const mountingDir = "mounting"

// sessionsDir is the directory of the records of iSCSI sessions in --root-dir.
const sessionsDir = "iscsi"

// bindingsDir is the directory of the bindings of static pods' claims in --root-dir.
const bindingsDir = "bindings"

// bootIDFile has the kernel's boot ID.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// persistence sets up the persistent volumes of pods: the drivers that register themselves, and what is done with them.
type persistence struct {
	drivers *csi.Drivers
	plugins *plugins.Manager
	backend *csivolume.Backend
	local   *local.Backend
	iscsi   *iscsi.Backend
	// directories mounts the directories of static pods' claims.
	directories *directory.Backend
	helpers     *foreign.Helpers
	storage     *storage.Storage
	waiting     *waitingPods
	// sizes is nil on a standalone node.
	sizes *apiexpansion.Expander
	usage *volumeusage.Meter
	// claimed are the directories of static pods' claims, for operators.
	claimed *claimvolumes.Volumes
	// cluster is nil on a standalone node.
	cluster *cluster
}

// newPersistence returns the node's persistent volumes. It calls no driver before run.
func newPersistence(n *node) (*persistence, error) {
	boot, err := bootID(bootIDFile)
	if err != nil {
		return nil, err
	}
	records, err := record.Open(filepath.Join(n.opts.RootDir, recordsDir), n.agentID)
	if err != nil {
		return nil, fmt.Errorf("open the records of volumes: %w", err)
	}
	if n.opts.adoptKubelet {
		if err := checkKubeletVolumes(n.opts.kubeletDir, records); err != nil {
			return nil, err
		}
	}
	p := &persistence{drivers: csi.New(csi.Config{Metrics: n.registry}), cluster: n.cluster}
	p.plugins = plugins.New(plugins.Config{
		Dir: n.opts.kubeletDir, Kinds: map[string]plugins.Kind{plugins.CSIPlugin: p.drivers}, Metrics: n.registry, Log: n.log,
	})
	p.helpers = foreign.New(foreign.Config{Dir: filepath.Join(n.opts.RootDir, mountingDir), Boot: boot, Log: n.log})
	volumes := csivolume.Config{
		Helpers:    p.helpers,
		KubeletDir: n.opts.kubeletDir, Node: n.opts.node, Drivers: p.drivers, CSIDrivers: noCSIDrivers{}, Log: n.log,
	}
	sources := resolver.Config{KubeletDir: n.opts.kubeletDir}
	cfg := storage.Config{Records: records, Agent: n.agentID, Boot: boot, Wake: n.wakeups.Add, Log: n.log}
	volumes.SELinux = n.selinux()
	cfg.SELinux, cfg.SELinuxMetrics = volumes.SELinux.Labels.Enabled(), volumes.SELinux.Metrics
	p.waiting = &waitingPods{wake: n.wakeups.Add, pods: map[types.UID]bool{}, refused: map[types.UID]bool{}}
	p.waiting.follow(p.drivers.Changed)
	if c := n.cluster; c != nil {
		volumes.Claims, volumes.Secrets = claims{c.volumes}, c.volumes
		volumes.CSIDrivers, volumes.Tokens = csiDrivers{c.objects}, volumeTokens(c.tokens)
		sources.Claims, sources.Labels = volumes.Claims, c.labels
		sources.Attaches = n.opts.settings.EnableControllerAttachDetach
		cfg.Attachments, p.waiting.drop = c.attachments, p.drop
		c.csiNodes = c.csiNode(p.drivers)
		if !n.opts.settings.EnableControllerAttachDetach {
			cfg.Attachments = unattached{c.attachments}
		}
		p.waiting.follow(c.objects.CSIDriversChanged)
		p.sizes = c.newExpander(n, p.expand)
		cfg.Sizes = p.sizes
		cfg.Republishes = csiDrivers{c.objects}.republishes
	}
	p.backend = csivolume.New(volumes)
	bindings, err := staticclaim.Open(filepath.Join(n.opts.RootDir, bindingsDir))
	if err != nil {
		return nil, err
	}
	sources.CSI = csivolume.NewResolver(volumes)
	p.waiting.claims = claimsOf{
		api: resolver.New(sources),
		static: staticclaim.New(staticclaim.Config{
			Objects:  func(pod *v1.Pod) staticclaim.Objects { return n.objects.For(pod) },
			Bindings: bindings, Directories: directory.New(n.opts.volumeDir),
			Changing: func() error { return p.helpers.Changing(n.opts.volumeDir) }, CSI: csivolume.Config{
				KubeletDir: volumes.KubeletDir, Node: volumes.Node, Drivers: volumes.Drivers, SELinux: volumes.SELinux, Log: n.log,
			},
		}),
	}
	p.iscsi, err = iscsi.New(iscsi.Config{
		Dir: filepath.Join(n.opts.RootDir, sessionsDir), Agent: n.agentID, Boot: boot, Helpers: p.helpers, Secrets: volumes.Secrets, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	p.local, p.directories = local.New(p.helpers), directory.NewBackend(p.helpers)
	cfg.Claims, cfg.Backends = p.waiting, map[string]storage.Backend{
		csivolume.BackendName: p.backend, directory.BackendName: p.directories, local.BackendName: p.local, nfs.BackendName: nfs.New(p.helpers),
		iscsi.BackendName: p.iscsi,
	}
	p.storage = storage.New(cfg)
	p.waiting.retry = func() {
		p.storage.Retry(func(driver string) bool {
			_, err := p.drivers.Get(driver)
			return err == nil
		})
	}
	p.claimed = claimvolumes.New(claimvolumes.Config{
		Root: n.opts.volumeDir, Helpers: p.helpers, Storage: p.storage, Bindings: bindings, Named: n.namedBy, Log: n.log,
	})
	p.usage = volumeusage.New(volumeusage.Config{Volumes: p.storage, Metrics: n.registry, Log: n.log})
	stats.RegisterClaims(n.registry, n.board, p.usage)
	return p, nil
}

// selinux chooses volumes' SELinux contexts by this node's policy.
func (n *node) selinux() *selinuxmount.Chooser {
	return &selinuxmount.Chooser{
		Labels: &selinuxmount.Node{}, Metrics: selinuxmount.NewMetrics(n.registry),
		OnlyReadWriteOncePod: !n.opts.settings.Gates().Enabled(gates.SELinuxMount),
	}
}

// checkKubeletVolumes returns an error if there are volumes of which there are no records. Only a kubelet makes those: podexecd
// would adopt its pods, and drop their volumes from volumesInUse while they are mounted. A damaged record may be that of any pod:
// nothing is refused then, and nothing leaves volumesInUse either. Records of another agent don't count.
func checkKubeletVolumes(dir string, records *record.Dir) error {
	volumes, kept, err := records.Load(context.Background())
	if err != nil {
		return fmt.Errorf("read the records of volumes: %w", err)
	}
	if slices.ContainsFunc(kept, func(k record.Kept) bool { return k.Err != nil }) {
		return nil
	}
	recorded := kubeletdir.Recorded{Pods: map[kubeletdir.PodVolume]bool{}}
	for i := range volumes {
		v := &volumes[i]
		for _, p := range v.Publications {
			recorded.Pods[kubeletdir.PodVolume{UID: p.UID, Plugin: p.Plugin, Name: p.Name}] = true
		}
		recorded.Staged = append(recorded.Staged, stagedPaths(v)...)
	}
	return kubeletdir.CheckVolumes(dir, recorded)
}

// stagedPaths returns where a recorded volume may be mounted for all pods, relative to the directory of plugins.
func stagedPaths(v *record.Volume) []string {
	path := ""
	switch v.Backend {
	case csivolume.BackendName:
		return csivolume.StagedPaths(v)
	case iscsi.BackendName:
		path = iscsi.StagedPath(v)
	case local.BackendName:
		path = local.StagedPath(v)
	}
	if path == "" {
		return nil
	}
	return []string{path}
}

// expand has a driver expand the volume of a pod.
func (p *persistence) expand(ctx context.Context, uid types.UID, volume string, bytes int64) error {
	return p.storage.Expand(ctx, uid, volume, csivolume.ExpandArgs(bytes))
}

// drop forgets the claims of a pod that is gone.
func (p *persistence) drop(uid types.UID) {
	p.cluster.volumes.Drop(uid)
	p.sizes.Drop(uid)
}

// bootID reads the kernel's boot ID. Without it podexecd can't tell what is mounted.
func bootID(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the boot ID, by which podexecd knows what may be mounted: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", fmt.Errorf("%s is empty: without the boot ID podexecd doesn't know what may be mounted", path)
	}
	return id, nil
}

// run sets up volumes until ctx ends. Then it waits for the calls that are being made. The connections to the drivers, and
// the reads from the API server, end after that.
func (p *persistence) run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return unlessEnded(serving, p.plugins.Run(serving)) })
	group.Go(func() error { p.waiting.run(ctx); return nil })
	group.Go(func() error { p.usage.Run(ctx); return nil })
	group.Go(func() error { p.claimed.Run(ctx); return nil })
	group.Go(func() error {
		defer stop()
		p.storage.Run(ctx)
		p.backend.Close()
		p.local.Close()
		p.iscsi.Close()
		p.directories.Close()
		p.helpers.Close()
		return nil
	})
	if p.cluster != nil {
		group.Go(func() error { p.cluster.attachments.Restore(ctx, p.storage); return nil })
		group.Go(func() error { p.cluster.csiNodes.Run(ctx); return nil })
	}
	err := group.Wait()
	if p.cluster != nil {
		p.sizes.Close()
		p.cluster.volumes.Close()
	}
	return err
}

// claimsOf resolves the volumes of pods by their source: the claims of static pods aren't in the API server.
type claimsOf struct{ api, static storage.Claims }

// Resolve is part of storage.Claims.
func (c claimsOf) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	if podmeta.IsStatic(pod) && spec.NFS == nil && spec.ISCSI == nil {
		return c.static.Resolve(ctx, pod, spec)
	}
	return c.api.Resolve(ctx, pod, spec)
}

// noCSIDrivers are the CSIDrivers of a standalone node.
type noCSIDrivers struct{}

// CSIDriver is part of csivolume.CSIDrivers.
func (noCSIDrivers) CSIDriver(context.Context, string) (*storagev1.CSIDriverSpec, bool, error) {
	return nil, false, errors.New("this node has no API server, and so no CSIDrivers")
}
