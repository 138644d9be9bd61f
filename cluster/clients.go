package cluster

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Client returns client-go's client for the built-in kinds. Every call returns
// the same client. It speaks protobuf, because all built-in kinds support that,
// unless the config names a content type. For your own kinds, see [Kind].
//
// The first call panics if the config's certificate files are no longer
// readable, although [New] has read them. The same is true for Dynamic and
// Metadata.
func (c *Cluster) Client() kubernetes.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		config := c.Config()
		if config.ContentType == "" && config.AcceptContentTypes == "" {
			config.ContentType = runtime.ContentTypeProtobuf
			config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		}
		c.client = kubernetes.NewForConfigOrDie(config)
	}
	return c.client
}

// Dynamic returns a client for kinds that are known only at run time. Every
// call returns the same client.
func (c *Cluster) Dynamic() dynamic.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dynamic == nil {
		c.dynamic = dynamic.NewForConfigOrDie(c.Config())
	}
	return c.dynamic
}

// Metadata returns a client for the metadata of any kind. Every call returns
// the same client.
func (c *Cluster) Metadata() metadata.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.metadata == nil {
		c.metadata = metadata.NewForConfigOrDie(c.Config())
	}
	return c.metadata
}
