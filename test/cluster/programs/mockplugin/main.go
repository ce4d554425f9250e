// Command mockplugin stands in for the image hostpathplugin, whose module can't be had from the Go module proxy, in the specs that
// test/cluster/conformance runs.
//
// With -proxy-endpoint it only connects each client of the driver's socket with a connection to that port: the mock driver itself runs in
// the program of the specs, which makes these connections in advance by port forwarding. Otherwise it is the same mock driver, upstream's,
// and logs each call in the form that the specs read. It has those flags of the image that the manifests use; it makes no volumes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	klog.InitFlags(nil)
	var config service.Config
	var attach bool
	flag.StringVar(&config.DriverName, "drivername", "", "`name` of the driver")
	flag.BoolVar(&attach, "enable-attach", false, "volumes must be attached")
	flag.BoolVar(&config.EnableTopology, "enable-topology", false, "the driver has a topology")
	flag.Int64Var(&config.AttachLimit, "attach-limit", 0, "`number` of volumes that a node takes; 0 means any number")
	flag.BoolVar(&config.NodeExpansionRequired, "node-expand-required", false, "volumes are expanded on the node too")
	endpoint := flag.String("endpoint", "", "`path` of the driver's socket")
	proxied := flag.String("proxy-endpoint", "", "`endpoint`, tcp://ADDRESS, at which the driver connects; default: this program is the driver")
	flag.String("nodeid", "", "ignored: the mock driver has its own")
	flag.String("statedir", "", "ignored: there is no state")
	flag.Parse()
	config.DisableAttach = !attach
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *endpoint, *proxied, config); err != nil {
		klog.ErrorS(err, "The driver ends")
		stop()
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// run serves at the endpoint until ctx ends.
func run(ctx context.Context, endpoint, proxied string, config service.Config) error {
	if err := os.Remove(endpoint); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	clients, err := net.Listen("unix", endpoint)
	if err != nil {
		return err
	}
	defer clients.Close()
	if proxied != "" {
		address := strings.TrimPrefix(proxied, "tcp://")
		drivers, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		defer drivers.Close()
		context.AfterFunc(ctx, func() { _, _ = clients.Close(), drivers.Close() })
		err = pair(clients, drivers)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s := service.New(config)
	server := driver.NewCSIDriver(&driver.CSIDriverServers{Controller: s, Identity: s, Node: s})
	if err := server.Start(clients, logCall); err != nil {
		return err
	}
	<-ctx.Done()
	server.Stop()
	return nil
}

// logCall answers a call, and logs it.
func logCall(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	reply, err := answer(ctx, request, handler)
	call := map[string]any{"Method": info.FullMethod, "Request": request, "Response": reply, "Error": ""}
	if err != nil {
		call["Error"], call["FullError"] = err.Error(), status.Convert(err).Proto()
	}
	line, encodeErr := json.Marshal(call)
	if encodeErr != nil {
		klog.ErrorS(encodeErr, "The call isn't logged", "method", info.FullMethod)
	}
	klog.Infof("gRPCCall: %s", line)
	return reply, err
}
