package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

// Driver is a running driver.
type Driver struct {
	// Faults are the driver's faults.
	Faults *fault.Table

	opts    Options
	store   store
	backing backing
	log     *calllog.Writer
	run     string
	// patience bounds how long the driver waits for news that the caller of an earlier call has gone: Overlaps of calllog.Record.
	patience time.Duration

	servers    []*grpc.Server
	control    *http.Server
	endAwait   func()
	serving    sync.WaitGroup
	background sync.WaitGroup // what logs that callers have gone
	// dead is closed by Kill and Stop: calls that wait end. done is closed when all has ended.
	dead, done chan struct{}
	end        sync.Once

	connections atomic.Int64
	mu          sync.Mutex
	calls       map[int]*call
	lastCall    int
	busy        map[string]bool
	registered  chan struct{} // closed at the first successful registration
}

// Start starts a driver. Its sockets accept connections when Start returns.
func Start(o Options) (*Driver, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	d := &Driver{
		opts: o, Faults: &fault.Table{}, store: store{dir: o.Dir, node: o.NodeID}, run: uuid.NewString(), patience: 5 * time.Second,
		dead: make(chan struct{}), done: make(chan struct{}), registered: make(chan struct{}),
		calls: map[int]*call{}, busy: map[string]bool{},
	}
	d.backing = directories{d.store}
	if o.Backing == Image {
		d.backing = images{d.store}
	}
	for _, f := range o.Faults {
		if _, err := d.Faults.Add(context.Background(), f); err != nil {
			return nil, err
		}
	}
	if err := d.prepare(); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", o.Dir, err)
	}
	if d.log, err = calllog.Open(o.Log); err != nil {
		return nil, err
	}
	r := d.record(calllog.Start)
	r.Stages, r.Attaches = o.can(Stage), o.AttachRequired
	if err = d.log.Write(r); err == nil {
		err = d.serve()
	}
	if err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

// prepare makes the directories, and the volumes of the options.
func (d *Driver) prepare() error {
	if err := d.store.prepare(); err != nil {
		return err
	}
	unlock, err := d.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, text := range d.opts.Volumes {
		id, size, err := parseVolume(text)
		if err != nil {
			return err
		}
		v, err := d.store.get(id)
		if err != nil || v != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := d.make(&volume{ID: id, Name: id, Size: size}); err != nil {
			return err
		}
	}
	return nil
}

// make makes a volume, with the store's lock. Its contents exist before its state says that it exists.
func (d *Driver) make(v *volume) error {
	if err := d.backing.create(v); err != nil {
		return err
	}
	return d.store.put(v)
}

// serve starts the servers.
func (d *Driver) serve() error {
	main := grpc.NewServer(grpc.UnaryInterceptor(d.intercept), grpc.StatsHandler(counter{d}), grpc.WaitForHandlers(true))
	csipb.RegisterIdentityServer(main, identity{d: d})
	csipb.RegisterControllerServer(main, controller{d: d})
	csipb.RegisterNodeServer(main, node{d: d})
	if err := d.listen(d.opts.Endpoint, main); err != nil {
		return err
	}
	if d.opts.Control != "" {
		l, err := listen(d.opts.Control)
		if err != nil {
			return err
		}
		// Await of a fault ends with the driver.
		base, cancel := context.WithCancel(context.Background())
		d.endAwait = cancel
		d.control = &http.Server{
			Handler: d.Faults.Handler(), ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return base },
		}
		d.serving.Go(func() { _ = d.control.Serve(l) })
	}
	// The registration is last: the agent calls the driver when it has found the socket.
	if d.opts.Registration != "" {
		server := grpc.NewServer(grpc.WaitForHandlers(true))
		registrationv1.RegisterRegistrationServer(server, registration{d: d})
		return d.listen(d.opts.Registration, server)
	}
	return nil
}

func (d *Driver) listen(path string, server *grpc.Server) error {
	l, err := listen(path)
	if err != nil {
		return err
	}
	d.servers = append(d.servers, server)
	d.serving.Go(func() { _ = server.Serve(l) })
	return nil
}

// listen listens at a path. A socket from before a death is removed. The socket's file remains when the listener is closed.
func listen(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSocket != 0 {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, nil
}

// Options returns the driver's options, with their defaults.
func (d *Driver) Options() Options { return d.opts }

// Registered is closed when the agent has registered the driver.
func (d *Driver) Registered() <-chan struct{} { return d.registered }

// Done is closed when the driver has ended, by Stop, Kill or a fault.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Stop ends the driver as a process ends on SIGTERM: its sockets are removed, and calls are cut off.
func (d *Driver) Stop() {
	for _, path := range []string{d.opts.Registration, d.opts.Endpoint, d.opts.Control} {
		if path != "" {
			_ = os.Remove(path)
		}
	}
	d.Kill()
}

// Kill has the effect of SIGKILL for clients and for the log: connections break without answers, nothing is logged any more, and the
// sockets' files remain. Calls that mount something finish that, which SIGKILL wouldn't let them.
func (d *Driver) Kill() {
	d.end.Do(func() {
		if d.log != nil {
			_ = d.log.Close()
		}
		close(d.dead) // After the log: calls that wait end without a record.
		if d.control != nil {
			d.endAwait()
			_ = d.control.Close()
		}
		for _, s := range d.servers {
			s.Stop()
		}
		d.serving.Wait()
		d.background.Wait()
		close(d.done)
	})
	<-d.done
}

// die ends the driver in the midst of a call. It returns only if the process lives on.
func (d *Driver) die(ctx context.Context) {
	if d.opts.Die != nil {
		d.opts.Die()
	}
	_ = d.log.Close()
	go d.Kill() // It waits for this call. Done is closed at its end.
	<-ctx.Done()
}

// record returns a record of this run.
func (d *Driver) record(event calllog.Event) *calllog.Record {
	return &calllog.Record{Time: time.Now(), Event: event, Driver: d.opts.Name, Node: d.opts.NodeID, Run: d.run}
}
