// This file is empty. With an assembly file in the package the compiler accepts functions without a body, see kubelet.go.
