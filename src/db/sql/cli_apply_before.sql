-- Serves: pgrab apply.  All that a file may write as it is before; dropped at the end of the transaction.
create temporary table pgrab_before on commit drop as
select a.object, a.id, a.name, a.definition from pgrab_tool.applied() a
