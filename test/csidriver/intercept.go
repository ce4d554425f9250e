package csidriver

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

// call is a call that is under way.
type call struct {
	record *calllog.Record
	ctx    context.Context //nolint:containedctx // whether the caller of another call has gone
	ended  chan struct{}

	mu         sync.Mutex
	gone, over bool
}

// changes are the methods that change a volume on the node. The specification wants one at a time for each volume.
var changes = []string{"NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeExpandVolume"}

// controls are those of the controller service that change a volume.
var controls = []string{"DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "ControllerExpandVolume"}

// connection is the context key of a connection's number.
type connection struct{}

// counter numbers connections.
type counter struct{ d *Driver }

func (c counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connection{}, c.d.connections.Add(1))
}

func (counter) HandleConn(context.Context, stats.ConnStats)                     {}
func (counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (counter) HandleRPC(context.Context, stats.RPCStats)                       {}

// intercept is the way of each call: its begin is logged, faults happen, it acts, its end is logged.
func (d *Driver) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c, err := d.begin(ctx, path.Base(info.FullMethod), request.(proto.Message))
	if err != nil {
		return nil, d.notLogged(ctx, err)
	}
	d.background.Add(1)
	stop := context.AfterFunc(ctx, func() { defer d.background.Done(); d.callerGone(c) })
	defer func() {
		if stop() {
			d.background.Done()
		}
	}()
	// A call goes on without its caller.
	alive := context.WithoutCancel(ctx)
	met := d.Faults.Meet(c.record.Method, c.record.Volume)
	answer, err := d.act(ctx, c, met, func() (any, error) { return handler(alive, request) })
	if err := d.endCall(c, met, err); err != nil {
		return nil, d.notLogged(ctx, err)
	}
	return answer, err
}

// notLogged is the result of a call whose begin or end can't be logged. After Kill no client receives it.
func (d *Driver) notLogged(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrClosed) {
		<-ctx.Done()
	}
	return status.Errorf(codes.Unavailable, "the call can't be logged: %v", err)
}

// begin logs the begin of a call.
func (d *Driver) begin(ctx context.Context, method string, request proto.Message) (*call, error) {
	r := d.record(calllog.Begin)
	r.Method = method
	r.Connection, _ = ctx.Value(connection{}).(int64)
	if err := describe(request, r); err != nil {
		return nil, err
	}
	c := &call{record: r, ctx: ctx, ended: make(chan struct{})}
	d.mu.Lock()
	var others []*call
	if slices.Contains(changes, method) {
		for _, other := range d.calls {
			if other.record.Volume == r.Volume && slices.Contains(changes, other.record.Method) {
				others = append(others, other)
			}
		}
	}
	d.lastCall++
	r.Call = d.lastCall
	d.calls[r.Call] = c
	d.mu.Unlock()
	for _, other := range others {
		if d.overlaps(other, r.Connection) {
			r.Overlaps = append(r.Overlaps, other.record.Call)
		} else {
			d.callerGone(other)
		}
	}
	slices.Sort(r.Overlaps)
	if err := d.log.Write(r); err != nil {
		d.forget(c)
		return nil, err
	}
	return c, nil
}

// overlaps reports whether the caller of a call still waits for it. A caller that has died and connected again may arrive before
// the end of its old connection is seen here.
func (d *Driver) overlaps(other *call, conn int64) bool {
	if other.ctx.Err() != nil {
		return false
	}
	if other.record.Connection == conn {
		return true
	}
	timer := time.NewTimer(d.patience)
	defer timer.Stop()
	select {
	case <-other.ctx.Done():
		return false
	case <-other.ended:
	case <-timer.C:
	case <-d.dead:
	}
	return true
}

// callerGone logs, once and before the call's end, that its caller has gone.
func (d *Driver) callerGone(c *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.over {
		return
	}
	c.gone = true
	r := d.record(calllog.Gone)
	r.Call = c.record.Call
	_ = d.log.Write(r) // It fails after Kill only.
}

// endCall logs the end of a call.
func (d *Driver) endCall(c *call, met *fault.Met, result error) error {
	defer d.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	s := status.Convert(result)
	r := d.record(calllog.End)
	r.Call, r.Code, r.Message = c.record.Call, s.Code(), s.Message()
	if met != nil {
		r.Fault = string(met.Action)
	}
	return d.log.Write(r)
}

func (d *Driver) forget(c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.calls, c.record.Call)
	close(c.ended)
}

// act does what a call does, with its fault.
func (d *Driver) act(ctx context.Context, c *call, met *fault.Met, handler func() (any, error)) (any, error) {
	lock := ""
	switch {
	case c.record.Volume == "":
	case slices.Contains(changes, c.record.Method):
		lock = "node/" + c.record.Volume
	case slices.Contains(controls, c.record.Method):
		lock = "controller/" + c.record.Volume
	}
	if met == nil {
		met = &fault.Met{}
	}
	if !met.Busy {
		if err := d.before(ctx, met); err != nil {
			return nil, err
		}
	}
	if !d.take(lock) {
		return nil, status.Errorf(codes.Aborted, "an operation on volume %s is under way", c.record.Volume)
	}
	defer d.give(lock)
	if met.Busy {
		if err := d.before(ctx, met); err != nil {
			return nil, err
		}
	}
	answer, err := handler()
	if err != nil {
		return nil, err
	}
	switch met.Action {
	case fault.ActDie:
		d.die(ctx)
		return nil, errDead
	case fault.ActFail:
		return nil, status.Error(met.Code, met.Message)
	case fault.Huge:
		return inflate(answer.(proto.Message)), nil
	}
	return answer, nil
}

// errDead is the answer of calls that end with the driver. No client receives it.
var errDead = status.Error(codes.Unavailable, "the driver is dead")

// before does what a fault does before the call acts. With an error the call doesn't act.
func (d *Driver) before(ctx context.Context, met *fault.Met) error {
	if met.Delay > 0 {
		timer := time.NewTimer(met.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.dead:
			return errDead
		}
	}
	switch met.Action {
	case fault.Hang:
		<-d.dead
		return errDead
	case fault.Hold:
		select {
		case <-met.Released:
		case <-d.dead:
			return errDead
		}
	case fault.Fail:
		return status.Error(met.Code, met.Message)
	case fault.Die:
		d.die(ctx)
		return errDead
	}
	return nil
}

// take locks what a call changes.
func (d *Driver) take(lock string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if lock != "" && d.busy[lock] {
		return false
	}
	if lock != "" {
		d.busy[lock] = true
	}
	return true
}

func (d *Driver) give(lock string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, lock)
}

// hugeSize is the size of the answer of fault.Huge in bytes.
const hugeSize = 100 << 20

// inflate adds an unknown field of that size to an answer.
func inflate(answer proto.Message) proto.Message {
	const number = 9999
	field := protowire.AppendTag(make([]byte, 0, hugeSize+16), number, protowire.BytesType)
	field = protowire.AppendBytes(field, make([]byte, hugeSize))
	answer.ProtoReflect().SetUnknown(field)
	return answer
}
