regard.view("mechanism", (root, data) => {
  root.append(regard.element("p", {}, `${data.queries.length} queries`));
});
