package hostiledaemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/podstream/podstream/internal/hostiletext"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Daemon answers the calls of every service that this program links. The zero value is ready to use.
type Daemon struct {
	// Failing makes each call fail, with an error whose text has all strings.
	Failing bool
	// Pod is the name of each pod: that for which a command looks. Empty: names are hostile too.
	Pod string
	// Only has the names of the events that a stream sends, by the stream's method, such as "Exec". Without an entry it
	// sends all.
	Only map[string][]string

	mu sync.Mutex
	// calls counts the calls of a method.
	calls map[string]int
}

// Server returns a gRPC server that answers every call.
func (d *Daemon) Server() *grpc.Server { return grpc.NewServer(grpc.UnknownServiceHandler(d.serve)) }

// serve answers one call.
func (d *Daemon) serve(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	method, err := methodOf(full)
	if err != nil {
		return status.Error(codes.Unimplemented, err.Error())
	}
	request, err := newMessage(method.Input())
	if err == nil {
		err = stream.RecvMsg(request)
	}
	switch {
	case err != nil:
		return err
	case d.Failing, method.IsStreamingServer() && d.again(full):
		return status.Error(codes.InvalidArgument, valid(strings.Join(hostiletext.Strings(), " ")))
	}
	return d.answer(method, request.ProtoReflect(), stream)
}

// again reports whether the method was called before: a command that reconnects ends with the second error.
func (d *Daemon) again(method string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[method]++
	return d.calls[method] > 1
}

func (d *Daemon) answer(method protoreflect.MethodDescriptor, request protoreflect.Message, stream grpc.ServerStream) error {
	f := filler{name: d.Pod, method: string(method.Name()), format: podconfigv1.PodFormat_POD_FORMAT_JSON, contents: &group{}}
	f.read(request)
	if !method.IsStreamingServer() {
		response, err := newMessage(method.Output())
		if err != nil {
			return err
		}
		f.fill(response.ProtoReflect(), hostiletext.Strings(), 0)
		return stream.SendMsg(response)
	}
	messages, err := f.events(method.Output(), d.Only[string(method.Name())])
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// events returns the messages of a stream: those of each event, for each string.
func (f filler) events(of protoreflect.MessageDescriptor, only []string) ([]proto.Message, error) {
	events := []string{""}
	if choices := of.Oneofs(); choices.Len() > 0 {
		events = nil
		for i := range choices.Get(0).Fields().Len() {
			events = append(events, string(choices.Get(0).Fields().Get(i).Name()))
		}
	}
	var out []proto.Message
	for i, event := range events {
		if only != nil && !slices.Contains(only, event) {
			continue
		}
		f.event = i
		for _, text := range hostiletext.Strings() {
			m, err := newMessage(of)
			if err != nil {
				return nil, err
			}
			f.fill(m.ProtoReflect(), []string{text}, 0)
			out = append(out, m)
		}
	}
	return out, nil
}

// read takes from a request the format of pods.
func (f *filler) read(request protoreflect.Message) {
	fields := request.Descriptor().Fields()
	if format := fields.ByName("format"); format != nil && format.Kind() == protoreflect.EnumKind && request.Has(format) {
		f.format = podconfigv1.PodFormat(request.Get(format).Enum())
	}
}

func methodOf(full string) (protoreflect.MethodDescriptor, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(full, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s isn't a method", name)
	}
	return method, nil
}

func newMessage(of protoreflect.MessageDescriptor) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}
