package web_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/podstream/podstream/internal/podctl/web"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestDaemonsAreNotServed: with a session, a page reaches no method of the daemons' APIs, such as RemoveVolume: only those of its own
// API, which has none for volumes.
func TestDaemonsAreNotServed(t *testing.T) {
	x := start(t, func(cfg *web.Config) { allowApply(t, cfg) })
	session, _ := x.open()
	headers := map[string]string{"Authorization": "Bearer " + session}
	if answer, ok := post(headers)(t, x); !ok {
		t.Fatalf("the page's own API: %s", answer)
	}
	called := map[string]bool{}
	for _, service := range []grpc.ServiceDesc{podexecv1.PodExecService_ServiceDesc, podconfigv1.PodConfigService_ServiceDesc} {
		var methods []string
		for _, m := range service.Methods {
			methods = append(methods, m.MethodName)
		}
		for _, s := range service.Streams {
			methods = append(methods, s.StreamName)
		}
		for _, method := range methods {
			called[method] = true
			for _, path := range []string{"/" + service.ServiceName + "/" + method, "/podweb.v1.WebService/" + method} {
				if strings.HasPrefix(path, "/podweb") && ownMethod(method) {
					continue
				}
				for _, kind := range []string{"application/json", "application/proto", "application/grpc", "application/grpc-web+proto", "application/connect+proto"} {
					headers["Content-Type"] = kind
					answer, ok := send(t, x, http.MethodPost, path, headers, strings.NewReader("{}"))
					if ok || !strings.HasPrefix(answer, "404 ") && !strings.HasPrefix(answer, "405 ") {
						t.Errorf("%s as %s: %.200s", path, kind, answer)
					}
				}
			}
		}
	}
	for _, method := range []string{"ListVolumes", "RemoveVolume", "ExportVolume", "ImportVolume"} {
		if !called[method] {
			t.Errorf("%s isn't a method of podexec.v1", method)
		}
	}
	methods := podwebv1.File_podweb_v1_podweb_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		if name := string(methods.Get(i).Name()); strings.Contains(name, "Volume") {
			t.Errorf("the page's API has %s", name)
		}
	}
	actions := (&podwebv1.Action{}).ProtoReflect().Descriptor().Fields()
	for i := range actions.Len() {
		if name := string(actions.Get(i).Name()); strings.Contains(name, "volume") {
			t.Errorf("the page has the action %s", name)
		}
	}
}

// ownMethod reports whether the page's own API has a method of this name.
func ownMethod(name string) bool {
	return podwebv1.File_podweb_v1_podweb_proto.Services().Get(0).Methods().ByName(protoreflect.Name(name)) != nil
}
