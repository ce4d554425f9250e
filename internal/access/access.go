package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
)

const (
	// Any connected caller may call healthCheck: it reveals nothing about the pods, and ends at once.
	healthCheck = "/grpc.health.v1.Health/Check"
	// The other methods of healthService are streams, which cost as long as they last, so they require a role.
	healthService = "/grpc.health.v1.Health/"
)

// Config configures the access rules. With the zero value, only root and the daemon's own user may call, as
// operators, on Unix sockets.
type Config struct {
	// AllowUIDs are consumers, beside root and the daemon's own user. A user of another user namespace without a uid
	// in this one has the kernel's overflow uid, 65534.
	AllowUIDs []uint32
	// File is the access file: YAML with a list "clients" of {commonName, organization, uri, dns | uid, role, nodes,
	// sources}. The first entry whose given fields all match decides, also for root. Empty: none.
	File string
	// CertFile and KeyFile are the server's own certificate and key, ClientCAFile the CAs of its clients, in PEM. All
	// three or none; with none, TCP can't be served.
	CertFile, KeyFile, ClientCAFile string
	// NodeClientCAFile are the CAs of the nodes of a cluster, in PEM. A certificate that only these verify has a role by
	// an entry {systemNodes: true} alone. Empty: none.
	NodeClientCAFile string
	// MinimumRole returns the minimum role for a method ("/podconfig.v1.PodConfigService/GetPod"). Nil means
	// Inspector for all.
	MinimumRole func(fullMethod string) Role
	// Permit returns why a caller with the minimum role may not call a method. Nil: it may.
	Permit func(fullMethod string, c Caller) error
	// Clock is for the expiry of certificates. Nil means the real one.
	Clock clock.PassiveClock
	// Logger receives a line for each change of the files. Nil discards.
	Logger *slog.Logger
}

// Access authenticates and authorizes callers. It is safe for concurrent use.
type Access struct {
	cfg   Config
	own   uint32
	rules atomic.Pointer[rules]
	// trust is nil without TLS files.
	trust atomic.Pointer[trust]

	mu     sync.Mutex // for Reload
	groups []*fileGroup
}

// Local is the Access of the zero Config: root and the daemon's own user, on Unix sockets.
func Local() *Access { return newAccess(Config{}) }

// New reads the files. Reload applies later changes.
func New(cfg Config) (*Access, error) {
	a := newAccess(cfg)
	switch given := []string{cfg.CertFile, cfg.KeyFile, cfg.ClientCAFile}; {
	case !slices.Contains(given, ""):
		if cfg.NodeClientCAFile != "" {
			given = append(given, cfg.NodeClientCAFile)
		}
		a.groups = append(a.groups, &fileGroup{paths: given, use: a.useTrust, log: a.cfg.Logger})
	case slices.ContainsFunc(given, func(path string) bool { return path != "" }):
		return nil, errors.New("TLS takes a certificate, its key and the clients' CAs: all three, or none")
	}
	if cfg.File != "" {
		a.groups = append(a.groups, &fileGroup{paths: []string{cfg.File}, use: a.useRules, log: a.cfg.Logger})
	}
	for _, g := range a.groups {
		if err := g.load(); err != nil {
			return nil, fmt.Errorf("read who may call: %w", err)
		}
	}
	if cfg.NodeClientCAFile != "" && !slices.ContainsFunc(a.rules.Load().entries, func(e entry) bool { return e.SystemNodes }) {
		a.cfg.Logger.Warn("no entry of the access file has systemNodes: true, so the nodes' CAs give no role",
			"file", cfg.File, "node_client_ca_file", cfg.NodeClientCAFile)
	}
	return a, nil
}

func newAccess(cfg Config) *Access {
	if cfg.MinimumRole == nil {
		cfg.MinimumRole = func(string) Role { return Inspector }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Access{cfg: cfg, own: self}
	a.rules.Store(&rules{})
	return a
}

func (a *Access) useTrust(contents [][]byte) error {
	var nodeCAs []byte
	if len(contents) > 3 {
		nodeCAs = contents[3]
	}
	t, err := newTrust(contents[0], contents[1], contents[2], nodeCAs, a.cfg.Clock.Now)
	if err == nil {
		a.trust.Store(t)
	}
	return err
}

func (a *Access) useRules(contents [][]byte) error {
	r, err := parseRules(a.cfg.File, contents[0])
	if err == nil && a.cfg.NodeClientCAFile == "" {
		err = r.checkNoNodes(a.cfg.File)
	}
	if err == nil {
		a.rules.Store(r)
	}
	return err
}

// TLS reports whether TCP can be served.
func (a *Access) TLS() bool { return a.trust.Load() != nil }

// OtherUsers reports whether users other than root and the daemon's own may have a role on a Unix socket, so that its
// mode must let them connect.
func (a *Access) OtherUsers() bool {
	other := func(uid uint32) bool { return !a.owner(uid) }
	return slices.ContainsFunc(a.cfg.AllowUIDs, other) ||
		slices.ContainsFunc(a.rules.Load().entries, func(e entry) bool { return e.UID != nil && other(*e.UID) })
}

// Reloads reports whether there are files to Reload, or certificates that expire.
func (a *Access) Reloads() bool { return len(a.groups) > 0 }

// Reload reads the files again. It applies contents that are the same at two successive calls, so a change is in
// force two calls later. Files that can't be used, or don't fit together, are logged once, and the former contents
// stay in force.
func (a *Access) Reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	others := a.OtherUsers()
	for _, g := range a.groups {
		g.reload()
	}
	if !others && a.OtherUsers() {
		a.cfg.Logger.Warn("other users have roles now, but the existing sockets are open to their owner only; restart to change that")
	}
}

// Authorize decides whether a call may be made, by the present rules. It returns the context with the Caller, or an
// error with the code PERMISSION_DENIED, or UNAUTHENTICATED if a certificate has expired since the handshake.
func (a *Access) Authorize(ctx context.Context, fullMethod string) (context.Context, error) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ctx, status.Error(codes.Unauthenticated, "the connection has no known caller")
	}
	info, ok := p.AuthInfo.(*AuthInfo)
	if !ok {
		return ctx, status.Error(codes.Unauthenticated, "the connection has no known caller")
	}
	caller := a.caller(info, a.rules.Load())
	ctx = NewContext(ctx, caller)
	if fullMethod == healthCheck {
		return ctx, nil
	}
	_, name := info.identity()
	if a.expired(info) {
		return ctx, status.Errorf(codes.Unauthenticated, "the certificate of %s has expired; connect again with a new one", name)
	}
	if caller.Role == None {
		return ctx, status.Errorf(codes.PermissionDenied, "no role for %s; the access file (--access-file) gives roles%s", name, a.hint(info))
	}
	if strings.HasPrefix(fullMethod, healthService) {
		return ctx, nil
	}
	if least := a.cfg.MinimumRole(fullMethod); caller.Role < least {
		return ctx, status.Errorf(codes.PermissionDenied, "%s is %s; %s is for the role %s", name, caller.Role, fullMethod, least)
	}
	if a.cfg.Permit != nil {
		if err := a.cfg.Permit(fullMethod, caller); err != nil {
			return ctx, status.Errorf(codes.PermissionDenied, "%s: %v", name, err)
		}
	}
	return ctx, nil
}

// hint returns advice for a caller without a role.
func (a *Access) hint(i *AuthInfo) string {
	if i.Unix != nil {
		return ", and --allow-uid the role consumer"
	}
	if v := i.verified.Load(); v != nil && v.node && !v.client {
		return "; its certificate is of --node-client-ca-file only, so it needs an entry systemNodes, the common name " +
			nodeUserPrefix + "NAME, and the organization " + nodesGroup
	}
	return ""
}

// caller returns the connection's Caller under the rules.
func (a *Access) caller(i *AuthInfo, r *rules) Caller {
	c := Caller{Peer: i.Peer, Elsewhere: i.Elsewhere}
	c.Identity, _ = i.identity()
	if i.Unix != nil {
		uid := i.Unix.Uid
		switch e := r.find(uid, nil, nil); {
		case e != nil:
			c.Role, c.Nodes, c.Sources, c.Writes = e.role, e.Nodes, e.Sources, e.grants
		case a.isOwner(i):
			c.Role, c.Writes = Operator, ownerWrites
		case slices.Contains(a.cfg.AllowUIDs, uid):
			c.Role = Consumer
		}
		return c
	}
	// A consumer's name is bound to its identity, so no certificate may have the identity of a local user.
	if strings.HasPrefix(c.Identity, uidPrefix) {
		c.Identity = "certificate:" + c.Identity
		return c
	}
	v := i.verified.Load()
	if e := r.find(noUID, i.Certificates[0], v); e != nil && c.Identity != "" {
		c.Role, c.Nodes, c.Sources, c.Writes = e.role, e.Nodes, e.Sources, e.grants
		if e.SystemNodes {
			c.Nodes = []string{nodeOf(i.Certificates[0])}
		}
	}
	// A certificate that is no node's may have the name of one. It is another caller than the node.
	if v.by.nodes != nil && !(v.node && nodeOf(i.Certificates[0]) != "") && strings.HasPrefix(c.Identity, nodeUserPrefix) {
		c.Identity = "certificate:" + c.Identity
	}
	return c
}

// owner reports whether the uid is root's or the daemon's own.
func (a *Access) owner(uid uint32) bool { return uid == 0 || uid == a.own }

// isOwner reports whether a connection on a Unix socket is root's or the daemon's own. For the daemon's own uid, the
// process must also have the daemon's mount namespace, as a container may have the same uid.
func (a *Access) isOwner(i *AuthInfo) bool {
	return i.Unix.Uid == 0 || i.Unix.Uid == a.own && !i.Elsewhere
}

// recordRules records the rules under which the connection starts.
func (a *Access) recordRules(i *AuthInfo) {
	r := a.rules.Load()
	i.caller = a.caller(i, r)
	i.rules.Store(r)
}

func (a *Access) expired(i *AuthInfo) bool {
	if i.Unix != nil {
		return false
	}
	now := a.cfg.Clock.Now()
	return now.After(i.expires) || now.After(i.verified.Load().until)
}

// Recheck returns why a connection must be closed: its certificate has expired or its CA isn't trusted any more, or
// the caller's role or scope has changed, while its streams still use the former. It is cheap unless the files have
// changed.
func (a *Access) Recheck(i *AuthInfo) error {
	if a.expired(i) {
		return errors.New("its certificate has expired")
	}
	r := a.rules.Load()
	same := i.rules.Load() == r
	if t := a.trust.Load(); i.Unix == nil && i.verified.Load().by != t {
		v, err := t.verify(i.Certificates, a.cfg.Clock.Now())
		if err != nil {
			return fmt.Errorf("its certificate isn't valid any more: %w", err)
		}
		i.verified.Store(v)
		same = false
	}
	if !same {
		if now := a.caller(i, r); !now.equal(i.caller) {
			return fmt.Errorf("its role or scope has changed from %s to %s", i.caller.describe(), now.describe())
		}
		i.rules.Store(r)
	}
	return nil
}
