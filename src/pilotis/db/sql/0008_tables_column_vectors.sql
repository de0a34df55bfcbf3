-- owner: data
-- Whether every write stores the words of a string column beside it ('filling'), and whether every row has them
-- ('stored'); null where nobody searches the column.
alter table pilotis.columns add column vector text check (vector in ('filling', 'stored'));
