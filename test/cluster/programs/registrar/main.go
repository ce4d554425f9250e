// Command registrar is the registrar of a CSI driver: it serves the registration socket, from which the node agent learns the
// driver's name and its endpoint. It stands in for the image csi-node-driver-registrar, whose module can't be had from the Go module
// proxy, in the specs that test/cluster/conformance runs. It has those of its flags that the specs' manifests use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrationDir is where the manifests mount the agent's directory of registration sockets.
const registrationDir = "/registration"

// maxName is the length to which the name of the socket is cut, at its beginning. The agent's path of the socket must fit in an address, and
// the directories of a test are longer than /var/lib/kubelet. The end of a driver's name is what differs between specs.
const maxName = 32

func main() {
	klog.InitFlags(nil)
	address := flag.String("csi-address", "", "`path` of the driver's socket here")
	endpoint := flag.String("kubelet-registration-path", "", "`path` of the driver's socket on the node")
	health := flag.String("http-endpoint", "", "`address` at which /healthz answers while the socket exists; default: none")
	timeout := flag.Duration("timeout", time.Second, "how long a call of the driver may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *endpoint, *health, *timeout); err != nil {
		klog.ErrorS(err, "The registrar ends")
		stop()
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// run serves until ctx ends, or the agent refuses the driver.
func run(ctx context.Context, address, endpoint, health string, timeout time.Duration) error {
	name, err := driverName(ctx, address, timeout)
	if err != nil {
		return err
	}
	socket := filepath.Join(registrationDir, name[max(0, len(name)-maxName):]+"-reg.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	r := &registration{name: name, endpoint: endpoint, refused: make(chan string, 1)}
	registrationv1.RegisterRegistrationServer(server, r)
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop()
	if health != "" {
		go func() { ended <- serveHealth(health, socket) }()
	}
	klog.InfoS("Registration is served", "driver", name, "socket", socket)
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	case why := <-r.refused:
		return fmt.Errorf("the agent refuses driver %s: %s", name, why)
	}
}

// driverName asks the driver until it answers.
func driverName(ctx context.Context, address string, timeout time.Duration) (string, error) {
	conn, err := grpc.NewClient("unix://"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	for {
		calling, cancel := context.WithTimeout(ctx, timeout)
		info, err := csipb.NewIdentityClient(conn).GetPluginInfo(calling, &csipb.GetPluginInfoRequest{}, grpc.WaitForReady(true))
		cancel()
		if err == nil {
			return info.GetName(), nil
		}
		klog.InfoS("The driver doesn't answer yet", "err", err)
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// serveHealth answers the liveness probe.
func serveHealth(address, socket string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(socket); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

type registration struct {
	registrationv1.UnimplementedRegistrationServer
	name, endpoint string
	// refused gets the agent's reason.
	refused chan string
}

// GetInfo is part of registrationv1.RegistrationServer.
func (r *registration) GetInfo(context.Context, *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	return &registrationv1.PluginInfo{Type: registrationv1.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus is part of registrationv1.RegistrationServer.
func (r *registration) NotifyRegistrationStatus(
	_ context.Context, status *registrationv1.RegistrationStatus,
) (*registrationv1.RegistrationStatusResponse, error) {
	klog.InfoS("The agent answers", "registered", status.GetPluginRegistered(), "error", status.GetError())
	if !status.GetPluginRegistered() {
		select {
		case r.refused <- status.GetError():
		default:
		}
	}
	return &registrationv1.RegistrationStatusResponse{}, nil
}
